// What measuring a model's blocks tells, on a simulated device, beside what is estimated.
#include "train/measure.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "device/device.h"
#include "planner/costs/estimate.h"
#include "spec/layout.h"
#include "train/rehearsal.h"
#include "train/stopwatch.h"
#include "training_sample.h"

namespace ferry {
namespace {

TEST(Estimate, SavedBytesAndTimesGrowWithTheBatch) {
  const PlanQuestion asked = training_question(1);  // 2 rows of 16 tokens
  const PlanQuestion larger = with_batch(asked, kSampleMicroBatches, 6, 16);
  for (std::size_t i = 0; i < asked.profile.blocks.size(); ++i) {
    const BlockProfile &before = asked.profile.blocks[i], &after = larger.profile.blocks[i];
    EXPECT_GE(after.saved, 3 * before.saved) << before.key;
    EXPECT_LE(after.saved, 3 * before.saved + 512_B) << before.key;
    if (before.saved > 0_B) {
      EXPECT_GT(after.saved_backward, before.saved_backward);
      EXPECT_GE(after.saving_workspace, before.saving_workspace);
      EXPECT_GE(after.saved_backward_workspace, before.saved_backward_workspace);
    }
  }
}

struct Measuring {
  std::string config = kSampleConfig;
  MeasureRequest request(const ModelSpec& model) const {
    return {.model = model,
            .micro_batch_size = rows,
            .sequence = tokens,
            .device = "sim:0",
            .memory = memory,
            .flops = flops,
            .time = time};
  }
  Bytes memory = 1_GiB;
  Micros time{100'000};
  double flops = 0;
  int rows = 8, tokens = 64;
};

/// Every block of one layer, measured.
std::vector<MeasuredBlock> measured(const Measuring& how) {
  const ModelSpec model = parse_model_spec(how.config, "config");
  const OpenDevices devices = open_devices(1_GiB, /*checked=*/false);
  const std::vector<BlockId> blocks = {BlockId(0), BlockId(1), BlockId(2),
                                       BlockId(static_cast<int>(model.blocks.size()) - 2),
                                       BlockId(static_cast<int>(model.blocks.size()) - 1)};
  return measure_blocks(how.request(model), blocks, nobody());
}

std::string with_vocabulary(int rows, bool tied) {
  std::string config = kSampleConfig;
  config.replace(config.find("\"vocab_size\": 96"), 16, "\"vocab_size\": " + std::to_string(rows));
  if (tied) config.replace(config.find("false}"), 6, "true}");
  return config;
}

// A block whose bench has room, but not for what its forward would keep, is measured without.
TEST(Measure, SaysWhatIsKeptUnlessRoomIsShort) {
  const ModelSpec model = parse_model_spec(kSampleConfig, "config");
  const Profile estimate = estimate_profile(model, sample_machine(1), Precision::fp32, {8, 64});
  constexpr Micros kSeveralRounds{2e6};
  Bytes need, saved;  // of the MLP
  for (const MeasuredBlock& block : measured({.time = kSeveralRounds})) {
    const BlockProfile& costs = block.costs;
    EXPECT_TRUE(block.measured) << block.remark;
    EXPECT_EQ(costs.saved, find_block(estimate, costs.key)->saved) << costs.key;
    EXPECT_EQ(costs.saved > 0_B, costs.saved_backward > Micros{}) << costs.key;
    EXPECT_EQ(costs.saved > 0_B, costs.saving_forward > Micros{}) << costs.key;
    EXPECT_EQ(costs.saved > 0_B, costs.saving_workspace > 0_B) << costs.key;
    EXPECT_EQ(costs.saved > 0_B, costs.saved_backward_workspace > 0_B) << costs.key;
    EXPECT_LE(costs.saved_backward_workspace, costs.backward_workspace) << costs.key;
    EXPECT_GT(costs.backward, Micros{}) << costs.key;
    EXPECT_GT(block.again.backward, Micros{}) << costs.key;
    EXPECT_LE(block.again.forward, costs.forward) << costs.key;
    EXPECT_LE(block.again.backward, costs.backward) << costs.key;
    EXPECT_LE(block.again.saving_forward, costs.saving_forward) << costs.key;
    EXPECT_LE(block.again.saved_backward, costs.saved_backward) << costs.key;
    EXPECT_EQ(costs.saved > 0_B, block.again.saved_backward > Micros{}) << costs.key;
    EXPECT_GT(block.cores, 0) << costs.key;
    if (!costs.key.starts_with("mlp")) continue;
    need = costs.weights + costs.gradients + 2 * (costs.activation + costs.activation_gradient);
    saved = costs.saved;
  }
  ASSERT_GT(saved, 64_KiB);

  const MeasuredBlock tight = measured({.memory = need + Bytes{saved.count / 2}})[2];
  EXPECT_TRUE(tight.measured) << tight.remark;
  EXPECT_EQ(tight.costs.saved, 0_B);
  EXPECT_GT(tight.costs.backward, Micros{});
}

TEST(Measure, ABlockWithoutRoomOrTimeSaysSo) {
  for (const MeasuredBlock& block : measured({.memory = 1_KiB})) {
    EXPECT_FALSE(block.measured);
    EXPECT_NE(block.remark.find("and there are 1.0 KiB"), std::string::npos) << block.remark;
  }
  const auto slow = measured({.flops = 1000});
  EXPECT_FALSE(slow[1].measured);
  EXPECT_NE(slow[1].remark.find("measuring it would take about"), std::string::npos);
  EXPECT_TRUE(slow[0].measured) << "a look-up takes no products: " << slow[0].remark;
}

// A rehearsal knows of a plan's times what the plan says.
TEST(Rehearsal, SaysWhatDevicesComputeInPlannedTimes) {
  for (const int devices : {1, 2}) {
    const PlanQuestion asked = training_question(devices);
    Plan plan = planned(asked);
    const OpenDevices opened = open_devices(1_GiB, /*checked=*/false);
    const auto names = std::span(opened.names()).first(static_cast<std::size_t>(devices));
    const auto rate = [&](int least) {
      return rehearse(asked.model, plan, names, asked.machine, {}, least).computing;
    };
    const double once = rate(1);
    EXPECT_GT(once, 0);
    for (Task& task : plan.tasks) task.micros = task.micros * 1000;
    const double often = rate(1);
    EXPECT_GT(often, 30 * once) << "a thousand times as much, and as noisy";
    EXPECT_LT(often, 30'000 * once);
    EXPECT_EQ(rate(devices + 1), 0);
  }
}

// What is continued from two parts of the rows is what the whole takes.
TEST(Measure, ALargeVocabularyIsMeasuredInPart) {
  for (const bool tied : {false, true}) {
    const int part = 128 * 1024 * 1024 / (64 * 8);  // rows: weights and gradients take 128 MiB
    const auto small = measured({.config = with_vocabulary(part, tied), .rows = 1, .tokens = 16});
    const auto large =
        measured({.config = with_vocabulary(3 * part, tied), .rows = 1, .tokens = 16});
    EXPECT_EQ(large[4].remark, "measured on 262144 of its 786432 rows, and continued");
    EXPECT_EQ(small[4].remark, "");
    EXPECT_EQ(large[0].costs.weights, 3 * small[0].costs.weights);
    EXPECT_EQ(large[4].costs.gradients, 3 * small[4].costs.gradients);
    EXPECT_EQ(large[0].costs.forward_workspace, small[0].costs.forward_workspace);
    // Logits grow with the rows, the gradient of the input does not.
    EXPECT_GT(large[4].costs.backward_workspace, 2 * small[4].costs.backward_workspace);
    EXPECT_LE(large[4].costs.backward_workspace, 3 * small[4].costs.backward_workspace);
    EXPECT_GT(large[4].costs.backward, Micros{});
  }
}

TEST(Measure, AWorkHasARoundHoweverLittleTimeThereIs) {
  const OpenDevices devices = open_devices(1_MiB, /*checked=*/false);
  Device device = Device::open("sim:0");
  const Stopwatch watch(device, device.stream("compute"));
  int runs = 0;
  EXPECT_GT(watch.time({[&] { ++runs; }}, Micros{1}).front().device, Micros{});
  EXPECT_GE(runs, 2) << "once to see how long it takes, and a round";
}

TEST(Measure, WhatComesBetweenWorksIsNotCounted) {
  const OpenDevices devices = open_devices(64_MiB, /*checked=*/false);
  Device device = Device::open("sim:0");
  const Stopwatch watch(device, device.stream("compute"));
  const at::Tensor slab = device.slab(64_MiB);
  int fills = 0;
  const auto fill = [&] { ++fills, slab.fill_(1); };
  watch.run(fill, 1);
  const Micros filling = watch.run(fill, 1).device;
  const Micros nothing = watch.time({[] {}}, Stopwatch::kUnlimited, fill).front().device;
  EXPECT_LT(nothing, filling * 0.5);
  EXPECT_GE(fills, 10) << "before every round's";
}

TEST(Measure, AWorkRightBehindItselfIsTimedApart) {
  const OpenDevices devices = open_devices(64_MiB, /*checked=*/false);
  Device device = Device::open("sim:0");
  const Stopwatch watch(device, device.stream("compute"));
  const at::Tensor slab = device.slab(32_MiB);
  bool cold = false;
  const auto slow_when_cold = [&] {
    slab.narrow(0, 0, cold ? slab.numel() : 64).fill_(1);
    cold = false;
  };
  const Stopwatch::Timing timing =
      watch.time({slow_when_cold}, Stopwatch::kUnlimited, [&] { cold = true; }).front();
  EXPECT_LT(timing.again, timing.device * 0.5);
}

}  // namespace
}  // namespace ferry
