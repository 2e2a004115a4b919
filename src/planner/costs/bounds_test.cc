#include "planner/costs/bounds.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "planner/costs/chain.h"
#include "planner/sample_questions.h"

namespace ferry {
namespace {

constexpr int kMicroBatches = 4;
constexpr int kDevices = 2;
constexpr double kLinkRate = 1e5;  // slow: links bind

PlanQuestion question_with(Bytes each_device) {
  PlanQuestion question =
      sample_question({.layers = 3}, {.devices = kDevices, .link_rate = kLinkRate}, kMicroBatches);
  use_round_costs(question);
  set_device_budgets(question, each_device);
  return question;
}

struct Sums {
  Micros backward;
  double weights = 0;  // bytes
  double landing = 0;  // likewise, of gradient sums
};

Sums sums_of(const Chain& chain) {
  Sums sums;
  for (const ChainBlock& block : chain.blocks) {
    sums.backward += least_backward(block);
    sums.weights += static_cast<double>(block.weights.count);
    if (block.trainable) sums.landing += static_cast<double>(landing_sum(block).count);
  }
  return sums;
}

// Workspaces of 4 KiB: nothing can be at home beside them, and no sum waits there for the norm.
TEST(LowerBound, BetweenTwoNormsNewWeightsGoUpAndThenAllSumsComeDown) {
  PlanQuestion question = question_with(4_KiB);
  const Chain chain = make_chain(question);
  const Sums sums = sums_of(chain);
  const Micros up = from_seconds(sums.weights / (kDevices * kLinkRate));
  const Micros down = from_seconds(sums.landing / (kDevices * kLinkRate));
  EXPECT_NEAR(lower_bound(question, chain).count, (up + down).count, 1e-3);
  question.clips = false;
  EXPECT_NEAR(lower_bound(question, chain).count, std::max(up, down).count, 1e-3);
}

TEST(LowerBound, BetweenTwoNormsNewWeightsGoUpBeforeAllBackwards) {
  PlanQuestion question = question_with(4_KiB);
  for (MachineDevice& device : question.machine.devices) device.down = Rate{1e12};
  const Chain chain = make_chain(question);
  const Sums sums = sums_of(chain);
  const Micros up = from_seconds(sums.weights / (kDevices * kLinkRate));
  const Micros backwards = sums.backward * (double{kMicroBatches} / kDevices);
  EXPECT_NEAR(lower_bound(question, chain).count, (up + backwards).count, 1e-3);
}

TEST(LowerBound, FallsByWhatDevicesCanHoldBesideTheirWorkspaces) {
  const Chain chain = make_chain(question_with(4_KiB));
  const auto bound = [&](Bytes each_device) {
    return lower_bound(question_with(each_device), chain);
  };
  EXPECT_EQ(bound(3_KiB), bound(4_KiB));
  EXPECT_LT(bound(8_KiB), bound(4_KiB));
}

TEST(LowerBound, ASumTakesOneMicroBatchAfterTheOther) {
  constexpr int kMany = 16;
  PlanQuestion question = sample_question({.layers = 3}, {.devices = 8, .cores = 64}, kMany);
  use_round_costs(question);
  const Chain chain = make_chain(question);
  Micros all;
  Micros longest;
  for (const ChainBlock& block : chain.blocks) {
    if (has_forward(block)) all += block.forward;
    all += least_backward(block);
    longest = std::max(longest, least_backward(block));
  }
  EXPECT_EQ(lower_bound(question, chain), all + longest * (kMany - 1));
}

}  // namespace
}  // namespace ferry
