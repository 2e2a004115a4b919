#include "planner/mixed/mixed_stages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>

#include "planner/mixed/sample_graphs.h"
#include "planner/mixed/splitmix.h"

namespace ferry {
namespace {

struct Shape {
  std::vector<std::vector<BlockId>> blocks;
  std::vector<GpuId> gpus;
  std::vector<int> depths;
};

Shape shape_of(const BlockGraph& graph, const IdVector<BlockId, GpuId>& gpu_of) {
  Shape shape;
  for (const MixedStage& stage : StageBuilder(graph).build(gpus_as_bins(gpu_of))) {
    shape.blocks.push_back(stage.blocks);
    shape.gpus.push_back(stage.gpu);
    shape.depths.push_back(stage.depth);
  }
  return shape;
}

using Blocks = std::vector<std::vector<BlockId>>;

TEST(MixedStages, NeighboursOfOneGpuFallTogether) {
  const BlockGraph graph = chain_of({1, 1, 1, 1, 1, 1}, 2, 1_B);
  const Shape shape = shape_of(graph, {0, 0, 1, 1, 0, 0});
  EXPECT_EQ(shape.blocks, (Blocks{{0, 1}, {2, 3}, {4, 5}}));
  EXPECT_EQ(shape.gpus, (std::vector<GpuId>{0, 1, 0}));
  EXPECT_EQ(shape.depths, (std::vector<int>{2, 1, 0}));
}

// Block 2 is linked to block 0 by a skip tensor, but the path over block 1 leaves the GPU.
TEST(MixedStages, APathThatLeavesAndComesBackOpensANewStage) {
  BlockGraph graph = chain_of({1, 1, 1}, 2, 1_B);
  graph.tensors.push_back(tensor_of(0, {2}, 1_B, 1_B));
  EXPECT_EQ(shape_of(graph, {0, 1, 0}).blocks, (Blocks{{0}, {1}, {2}}));
}

// 0 -> 2, 1 -> 3 inside the GPUs, 0 -> 3 and 1 -> 2 across: each bin alone has no path that comes
// back, and yet both bins as one stage each would wait for one another.
TEST(MixedStages, StagesThatWaitForOneAnotherAreParted) {
  BlockGraph graph = weighted_blocks({1, 1, 1, 1}, 2);
  graph.tensors.push_back(tensor_of(0, {2, 3}, 1_B, 1_B));
  graph.tensors.push_back(tensor_of(1, {2, 3}, 1_B, 1_B));
  const Shape shape = shape_of(graph, {0, 1, 0, 1});
  EXPECT_EQ(shape.blocks, (Blocks{{1}, {0, 2}, {3}}));
  EXPECT_EQ(shape.depths, (std::vector<int>{2, 1, 0}));
}

TEST(MixedStages, PartsWithoutAnEdgeBetweenThemAreStagesOfTheirOwn) {
  BlockGraph graph = weighted_blocks({1, 1, 1}, 2);
  graph.tensors.push_back(tensor_of(0, {2}, 1_B, 1_B));
  EXPECT_EQ(shape_of(graph, {0, 0, 0}).blocks, (Blocks{{0, 2}, {1}}));
}

TEST(MixedStages, BinsKeepGroupsApartOnOneGpu) {
  const BlockGraph graph = chain_of({1, 1, 1, 1}, 1, 1_B);
  const MixedStages stages = StageBuilder(graph).build({{0, 0, 0, 0}, {0, 0, 1, 1}});
  ASSERT_EQ(stages.size(), 2U);
  EXPECT_EQ(stages[1].blocks, (std::vector<BlockId>{2, 3}));
}

// The V map: 0..3, 3..0; the two neighbours on GPU 3 are one stage.
TEST(MixedStages, VMapJoinsTheTwoStagesAtItsFold) {
  const BlockGraph graph = chain_of({1, 1, 1, 1, 1, 1, 1, 1}, 4, 1_B);
  EXPECT_EQ(shape_of(graph, {0, 1, 2, 3, 3, 2, 1, 0}).gpus,
            (std::vector<GpuId>{0, 1, 2, 3, 2, 1, 0}));
}

TEST(MixedStages, AnyPlacementOfAnyGraphGivesStagesInTopologicalOrder) {
  int parted = 0;
  for (std::uint64_t seed = 1; seed <= 4000; ++seed) {
    const RandomJob job = random_job(seed, 20);
    const StageBuilder builder(job.graph);
    SplitMix random(seed);
    IdVector<BlockId, GpuId> gpu_of(job.graph.blocks.size());
    for (GpuId& gpu : gpu_of) gpu = GpuId(random.below(job.machine.size()));
    const Placement placement = gpus_as_bins(gpu_of);
    const MixedStages stages = builder.build(placement);
    ASSERT_TRUE(in_topological_order(builder, stages)) << "seed " << seed;
    IdVector<BlockId, int> seen(gpu_of.size(), 0);
    for (const MixedStage& stage : stages) {
      for (const BlockId block : stage.blocks) {
        ++seen[block];
        EXPECT_EQ(gpu_of[block], stage.gpu);
      }
    }
    EXPECT_EQ(std::ranges::count(seen, 1), std::ssize(seen)) << "seed " << seed;
    if (static_cast<int>(stages.size()) > job.machine.size()) ++parted;
  }
  EXPECT_GT(parted, 1000);
}

}  // namespace
}  // namespace ferry
