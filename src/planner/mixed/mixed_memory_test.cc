#include "planner/mixed/mixed_memory.h"

#include <gtest/gtest.h>

#include "planner/mixed/sample_graphs.h"

namespace ferry {
namespace {

TEST(MixedMemory, InflightFollowsTheSchedule) {
  MixedStages stages;  // of one block each, on 8 GPUs in turn
  for (int s = 0; s < 16; ++s) stages.push_back({GpuId(s % 8), {BlockId(s)}, 15 - s});
  EXPECT_EQ(holds_1f1b(5)(stages)[0].inflight, 5);
  EXPECT_EQ(holds_1f1b(5)(stages)[12].inflight, 4);
}

// Every term of the formula once, on two stages.
TEST(MixedMemory, AddsTheTermsOfTheFormula) {
  MixedMachine machine = equal_gpus(2, 10000_B);
  machine.gpus[0].context = 1000_B;
  BlockGraph graph = weighted_blocks({1, 1, 1}, 2);
  for (GraphBlock& block : graph.blocks) {
    block.weight = 100_B;
    block.gradient = 40_B;
    block.state = 500_B;
    block.saved = 3_B;
  }
  graph.blocks[1].peak = 7_B;
  graph.blocks[2].peak = 9_B;
  graph.tensors.push_back(tensor_of(0, {1}, 20_B, 10_B));
  graph.tensors.push_back(tensor_of(1, {2}, 20_B, 10_B));
  const MixedStages stages{{0, {0, 1}, 1}, {1, {2}, 0}};
  LoadRules rules;
  const StagesHold holds{{4, 0, false}, {2, 1, false}};
  const Bytes buffers = 2 * 30_B;

  EXPECT_EQ(stage_memory({graph, machine, rules, {}}, stages, holds),
            (GpuBytes{1000_B + buffers + 280_B + 6_B + 7_B,
                      buffers + 2 * 20_B + 140_B + 100_B + 3_B + 9_B}));

  rules.states_on_gpu = true;
  EXPECT_EQ(stage_memory({graph, machine, rules, {}}, stages, holds)[0],
            1000_B + buffers + 280_B + 1000_B + 13_B);

  rules = {};
  rules.streamed_weights = true;
  const StagesHold offloaded{{4, 0, true}, {2, 0, true}};
  EXPECT_EQ(stage_memory({graph, machine, rules, {}}, stages, offloaded)[1],
            buffers + 12_B + 140_B);  // no saved input, W and G of the only visit
}

// Stages of one GPU never run at once: the larger peak counts, not the sum.
TEST(MixedMemory, PeaksOfStagesOnOneGpuDoNotAdd) {
  const MixedMachine machine = equal_gpus(2, 10000_B);
  BlockGraph graph = weighted_blocks({1, 1, 1}, 2);
  graph.blocks[0].peak = 70_B;
  graph.blocks[2].peak = 90_B;
  const MixedStages stages{{0, {0}, 2}, {1, {1}, 1}, {0, {2}, 0}};
  const StagesHold holds(3);
  EXPECT_EQ(stage_memory({graph, machine, {}, {}}, stages, holds)[0], 90_B);
}

// While one visit runs the next one's weights arrive: the two largest.
TEST(MixedMemory, StreamedWeightsNeedTheTwoLargestVisits) {
  const MixedMachine machine = equal_gpus(1, 10000_B);
  BlockGraph graph = weighted_blocks({1, 1, 1}, 1);
  graph.blocks[0].weight = 30_B;
  graph.blocks[1].weight = 50_B;
  graph.blocks[2].weight = 40_B;
  graph.blocks[1].gradient = 60_B;
  LoadRules rules;
  rules.streamed_weights = true;
  const MixedStages stages{{0, {0}, 2}, {0, {1}, 1}, {0, {2}, 0}};
  EXPECT_EQ(stage_memory({graph, machine, rules, {}}, stages, StagesHold(3))[0],
            50_B + 40_B + 60_B);
}

TEST(MixedMemory, TiedReplicasAndRecomputedTensorsTakeWhatTheyHold) {
  const MixedMachine machine = equal_gpus(2, 10000_B);
  BlockGraph graph = weighted_blocks({1, 1, 1}, 2);
  graph.blocks[0].weight = graph.blocks[0].gradient = 100_B;
  graph.tied.push_back({0, {1, 2}, 100_B, 100_B});
  graph.tensors.push_back(tensor_of(0, {1, 2}, 5000_B, 5000_B));
  graph.tensors[0].recompute_weight = 4_B;
  const std::vector<char> again{1};
  const MixedStages stages{{0, {0}, 1}, {1, {1, 2}, 0}};
  EXPECT_EQ(stage_memory({graph, machine, {}, again}, stages, StagesHold(2)),
            (GpuBytes{200_B, 200_B + 8_B}));
}

}  // namespace
}  // namespace ferry
