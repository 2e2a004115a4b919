#include "planner/costs/bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>

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

struct Totals {
  Micros all;  // of one micro-batch
  Micros backward;
  Micros host_updates;
  Micros device_updates;
  Bytes resting;  // W, S and sums
};

Totals totals_of(const Chain& chain) {
  Totals totals;
  for (const ChainBlock& block : chain.blocks) {
    totals.all += least_backward(block);
    totals.backward += least_backward(block);
    if (has_forward(block)) totals.all += block.forward;
    totals.host_updates += block.host_update;
    totals.device_updates += block.device_update;
    if (block.trainable) totals.resting += block.weights + block.states + landing_sum(block);
  }
  return totals;
}

// Workspaces of 4 KiB: nothing can be at home beside them, and no sum waits there for the norm.
TEST(LowerBound, BetweenTwoNormsNewWeightsGoUpAndThenAllSumsComeDown) {
  PlanQuestion question = question_with(4_KiB);
  const Chain chain = make_chain(question);
  const Sums sums = sums_of(chain);
  const Micros up = from_seconds(sums.weights / (kDevices * kLinkRate));
  const Micros down = from_seconds(sums.landing / (kDevices * kLinkRate));
  const Micros head = chain.blocks.back().backward * kMicroBatches;  // before any sum is whole
  question.host_budget = totals_of(chain).resting;                   // no room to update ahead
  EXPECT_NEAR(bound_of_one_way(question, chain).count, (up + head + down).count, 1e-3);
  question.clips = false;
  EXPECT_NEAR(bound_of_one_way(question, chain).count, std::max(up, down).count, 1e-3);
}

TEST(LowerBound, BetweenTwoNormsNewWeightsGoUpBeforeAllBackwards) {
  constexpr int kMany = 64;
  PlanQuestion question = question_with(4_KiB);
  question.micro_batches = kMany;
  for (MachineDevice& device : question.machine.devices) device.down = Rate{1e12};
  const Chain chain = make_chain(question);
  const Sums sums = sums_of(chain);
  const Micros up = from_seconds(sums.weights / (kDevices * kLinkRate));
  const Micros backwards = sums.backward * (double{kMany} / kDevices);
  // Of what is updated ahead new weights may go up beside backwards.
  EXPECT_LT(bound_of_one_way(question, chain), up + backwards);
  question.host_budget = totals_of(chain).resting;
  EXPECT_NEAR(bound_of_one_way(question, chain).count, (up + backwards).count, 1e-3);
}

TEST(LowerBound, FallsByWhatDevicesCanHoldBesideTheirWorkspaces) {
  const Chain chain = make_chain(question_with(4_KiB));
  const auto bound = [&](Bytes each_device) {
    return bound_of_one_way(question_with(each_device), chain);
  };
  EXPECT_EQ(bound(3_KiB), bound(4_KiB));
  EXPECT_LT(bound(8_KiB), bound(4_KiB));
}

// One device, whose links take no time, and blocks of which none rests there.
PlanQuestion question_of_host(Bytes host) {
  PlanQuestion question = question_with(4_KiB);
  question.machine.devices.resize(1);
  question.device_budgets.resize(1);
  question.machine.devices.front().up = question.machine.devices.front().down = Rate{1e15};
  question.machine.host.cores = 64;  // of which devices take few
  question.profile.update_rate = 1e5;
  question.host_budget = host;
  return question;
}

TEST(LowerBound, BetweenTwoNormsTheHostUpdatesAndThenAllBackwardsRun) {
  const Chain chain = make_chain(question_of_host(1_GiB));
  const Totals totals = totals_of(chain);
  const Micros backwards = totals.backward * kMicroBatches;
  // No room for what updates ahead of the norm keep.
  const PlanQuestion full = question_of_host(totals.resting);
  EXPECT_NEAR(bound_of_one_way(full, chain).count, (totals.host_updates + backwards).count, 0.1);

  // Beside all backwards but the head's, as much of them as fits there is updated ahead.
  const PlanQuestion roomy = question_of_host(1_GiB);
  const Micros beside = backwards - least_backward(chain.blocks.back()) * kMicroBatches;
  const double longer = 1 + 24.0 / 28;
  EXPECT_NEAR(bound_of_one_way(roomy, chain).count,
              (totals.host_updates - beside * (1 / longer) + backwards).count, 0.1);
}

TEST(LowerBound, UpdatesBetweenTwoNormsShareDramWithWhatIsCopied) {
  PlanQuestion question = question_of_host(1_GiB);
  const Chain chain = make_chain(question);
  const Totals totals = totals_of(chain);
  const Sums sums = sums_of(chain);
  question.host_budget = totals.resting;
  const double rate = question.profile.update_rate * 28;  // what an update draws
  question.machine.host.memory_bandwidth = Rate{rate};
  const Micros renewing = totals.host_updates + from_seconds(sums.weights / rate);
  const Micros backwards = totals.backward * kMicroBatches;
  EXPECT_NEAR(bound_of_one_way(question, chain).count, (renewing + backwards).count, 0.1);
}

// Where a sum takes long to come down, as all do behind the last of few micro-batches, it is
// shorter to go backward twice; where backward takes long it is not.
TEST(LowerBound, IsThatOfTheShorterWayToClip) {
  std::map<bool, int> shorter;
  for (const int micro_batches : {kMicroBatches, 4096}) {
    PlanQuestion question = question_with(4_KiB);
    question.micro_batches = micro_batches;
    question.host_budget = totals_of(make_chain(question)).resting;
    const Chain chain = make_chain(question);
    const Micros waiting = bound_of_one_way(question, chain);
    const Micros twice = bound_of_one_way(with_norm_first(question), chain);
    EXPECT_EQ(lower_bound(question, chain), std::min(waiting, twice));
    ++shorter[twice < waiting];
  }
  EXPECT_EQ(shorter, (std::map<bool, int>{{false, 1}, {true, 1}}));
}

// One device, which does nothing but compute, and DRAM with room for so many blocks' sums.
PlanQuestion question_of_room_for_sums(int blocks) {
  PlanQuestion question = question_of_host(1_GiB);
  question.profile.update_rate = 1e15;
  const Chain chain = make_chain(question);
  question.host_budget = {};
  for (const BlockId b : chain.blocks.ids()) {
    const ChainBlock& block = chain.blocks[b];
    question.host_budget += block.weights + block.states;
    if (b.number() < blocks) question.host_budget += landing_sum(block);
  }
  return question;
}

TEST(LowerBound, WhereTheNormComesFirstAllBackwardsCountTwice) {
  const PlanQuestion question = question_of_room_for_sums(0);
  const Chain chain = make_chain(question);
  const Totals totals = totals_of(chain);
  const Micros twice = bound_of_one_way(with_norm_first(question), chain);
  EXPECT_NEAR(twice.count, ((totals.all + totals.backward) * kMicroBatches).count, 0.1);
  // Updates run beside all of it.
  PlanQuestion slow = question;
  slow.profile.update_rate = 1e5;
  const Chain slowly = make_chain(slow);
  EXPECT_LT(bound_of_one_way(with_norm_first(slow), slowly),
            totals_of(slowly).host_updates + totals.backward * kMicroBatches);
}

TEST(LowerBound, BackwardsOfBlocksWhoseSumsHaveRoomCountOnce) {
  constexpr int kRoom = 3;
  const PlanQuestion question = question_of_room_for_sums(kRoom);
  const Chain chain = make_chain(question);
  Micros all = totals_of(chain).all;
  for (const BlockId b : chain.blocks.ids()) {
    if (b.number() >= kRoom) all += chain.blocks[b].backward;
  }
  EXPECT_NEAR(bound_of_one_way(with_norm_first(question), chain).count, (all * kMicroBatches).count,
              0.1);
}

// The host is slow: devices update all. They compute for all of the step.
TEST(LowerBound, UpdatesOfDevicesAreComputation) {
  constexpr int kMany = 64;
  PlanQuestion question =
      sample_question({.layers = 3}, {.devices = kDevices, .link_rate = 1e12, .cores = 64}, kMany);
  use_round_costs(question);
  question.profile.update_rate = 1e-3;
  question.profile.device_update_rate = 1e6;
  const Chain chain = make_chain(question);
  const Totals totals = totals_of(chain);
  EXPECT_NEAR(lower_bound(question, chain).count,
              (totals.all * kMany + totals.device_updates).count / kDevices, 0.1);
}

// Links take a second for a byte: each block stays on a device, and all are one stage.
TEST(LowerBound, WhereNothingPassesBetweenDevicesOneRunsAllMicroBatches) {
  PlanQuestion question =
      sample_question({.layers = 3}, {.devices = 8, .link_rate = 1, .cores = 64}, kMicroBatches);
  use_round_costs(question);
  question.profile.device_update_rate = 1e12;
  const Chain chain = make_chain(question);
  const Totals totals = totals_of(chain);
  const Micros updated = chain.blocks.front().device_update;
  EXPECT_NEAR(lower_bound(question, chain).count,
              (totals.all + totals.backward * (kMicroBatches - 1) + updated).count, 1e-3);
}

// One device and a drive, without clipping; neither the device nor DRAM can hold anything to speak
// of.
PlanQuestion question_on_drive() {
  constexpr double kDriveRate = 1e4;  // slow: the drive binds
  PlanQuestion question = sample_question({.layers = 3}, {}, 1);
  use_round_costs(question);
  set_device_budgets(question, 1_B);
  question.host_budget = 1_B;
  question.clips = false;
  question.machine.drives = {{.name = "ssd0", .capacity = 1_GiB}};
  question.machine.drives.front().read = question.machine.drives.front().write = {kDriveRate};
  return question;
}

// All states and inputs are read and written once, and weights read once more. What the turn needs
// beside them is read and written, too, so that it is more by that, and less by the embedding's W.
TEST(LowerBound, WeightsOnDrivesAreReadForForwardAndForBackward) {
  PlanQuestion question = question_on_drive();
  const Chain chain = make_chain(question);
  Bytes weights;
  Bytes states;
  Bytes workspace;
  for (const ChainBlock& block : chain.blocks) {
    weights += block.weights;
    states += block.states;
    workspace = std::max(workspace, block.backward_workspace);
  }
  const Bytes inputs = chain.activation * static_cast<std::int64_t>(chain.size() - 1);
  const Bytes head = workspace + chain.blocks.back().gradients + chain.activation;
  const double rate = question.machine.drives.front().read.bytes_per_second;
  const Bytes beside = inputs + head - chain.blocks.front().weights;
  const auto seconds = [&](Bytes bytes) { return static_cast<double>(bytes.count) / rate; };
  EXPECT_NEAR(lower_bound(question, chain).seconds(),
              seconds(states * 2 + weights * 3 + beside + inputs + head), 1e-3);

  // With room for the weights beside what the turn needs, nothing of them need be on the drive
  // then; but it is when the block is updated that has the largest sum, for that has to be in DRAM.
  Bytes updated;
  for (const ChainBlock& block : chain.blocks) {
    updated = std::max(updated, block.gradients);
  }
  question.host_budget = weights + inputs + head;
  EXPECT_NEAR(lower_bound(question, chain).seconds(),
              seconds((states + updated - inputs - head) * 2), 1e-3);
}

}  // namespace
}  // namespace ferry
