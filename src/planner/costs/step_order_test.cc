#include "planner/costs/step_order.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "planner/sample_questions.h"

namespace ferry {
namespace {

constexpr int kBlocks = 10;
constexpr int kMicroBatches = 5;
constexpr Micros kBackward{3000};

// Of equal blocks.
Chain chain_of(Bytes sum, Bytes activation) {
  ChainBlock block;
  block.backward = kBackward;
  block.weights = block.gradients = sum;
  Chain chain;
  chain.activation = activation;
  for (int b = 0; b < kBlocks; ++b) chain.blocks.push_back(block);
  return chain;
}

// A byte takes a microsecond down and one up.
PlanQuestion question_on(int devices) {
  return sample_question({}, {.devices = devices, .link_rate = 1e6}, kMicroBatches);
}

Micros later(Micros backward) { return backward * (kMicroBatches - 1); }

TEST(SumOrder, LetsOneMicroBatchAfterTheOtherThroughTheLongestBackward) {
  Chain chain = chain_of(Bytes{1}, Bytes{1});
  chain.blocks[4].backward = kBackward * 7;
  EXPECT_NEAR(sum_order_delay(question_on(1), chain).count, later(kBackward * 7).count, 1e-6);
  EXPECT_NEAR(sum_order_delay(question_on(4), chain).count, later(kBackward * 7).count, 10);
}

TEST(SumOrder, MakesLongStagesOfWhatPassesSlowly) {
  // A crossing takes as long as all behind the first micro-batch: there is none.
  const Bytes crossing{static_cast<std::int64_t>(later(kBackward * kBlocks).count) / 2};
  const Chain chain = chain_of(1_GiB, crossing);
  EXPECT_NEAR(sum_order_delay(question_on(4), chain).count, later(kBackward * kBlocks).count, 1e-6);
  // A quarter: two stages and one crossing, or one and none, take as long.
  Chain quarter = chain;
  quarter.activation = Bytes{crossing.count / 4};
  const Micros two_stages =
      later(kBackward * kBlocks) * 0.5 + Micros{static_cast<double>(quarter.activation.count) * 2};
  EXPECT_NEAR(sum_order_delay(question_on(4), quarter).count, two_stages.count, 1e-6);
}

TEST(SumOrder, LetsASumPassWhereThatIsFaster) {
  const Chain chain = chain_of(Bytes{5000}, 1_GiB);
  EXPECT_NEAR(sum_order_delay(question_on(4), chain).count,
              (later(kBackward) + Micros{2 * 5000.0}).count, 1e-6);
}

TEST(SumOrder, CountsTheFasterWayBetweenDevices) {
  const Chain chain = chain_of(Bytes{5000}, 1_GiB);
  PlanQuestion question = question_on(4);
  for (MachineDevice& device : question.machine.devices) device.p2p = Rate{10e6};
  EXPECT_NEAR(sum_order_delay(question, chain).count, (later(kBackward) + Micros{500}).count, 1e-6);
}

TEST(SumOrder, LeavesBlocksWithoutSumsAsideAndOneMicroBatchToItself) {
  Chain chain = chain_of(Bytes{}, 1_GiB);
  EXPECT_EQ(sum_order_delay(question_on(4), chain), Micros{});
  PlanQuestion question = question_on(4);
  question.micro_batches = 1;
  EXPECT_EQ(sum_order_delay(question, chain_of(1_GiB, 1_GiB)), Micros{});
}

TEST(RenewalOfTheFirstBlock, IsTheDevicesOrOfAllThatTheHostDoes) {
  Chain chain = chain_of(Bytes{500}, Bytes{1});
  ChainBlock& first = chain.blocks.front();
  first.weights = Bytes{100};
  first.host_update = Micros{40};
  first.device_update = Micros{900};
  EXPECT_NEAR(renewal_of_first(question_on(2), chain).count, 500 + 40 + 100, 1e-6);
  first.device_update = Micros{60};
  EXPECT_NEAR(renewal_of_first(question_on(2), chain).count, 60, 1e-6);
}

}  // namespace
}  // namespace ferry
