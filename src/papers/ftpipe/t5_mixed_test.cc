// Mixed-pipe on T5-3B: what FTPipe prints, and what follows from its numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "papers/ftpipe/t5_fixture.h"
#include "planner/cuts/contiguous.h"
#include "planner/mixed/coarsen.h"
#include "planner/mixed/mixed_load.h"
#include "planner/mixed/mixed_pipe.h"
#include "planner/mixed/sample_graphs.h"
#include "planner/mixed/skip_tensors.h"

namespace ferry {
namespace {

MixedPipeOptions options_for(const MixedMachine& machine) {
  MixedPipeOptions options;
  options.machine = machine;
  return options;
}

std::vector<int> sizes(const Items& groups) {
  std::vector<int> result;
  for (const std::vector<BlockId>& group : groups) result.push_back(static_cast<int>(group.size()));
  return result;
}

// The cyclic Mixed map of T5: encoder stages 0..7 and decoder stages 8..15 of three layers each.
IdVector<BlockId, GpuId> cyclic_mixed_map() {
  IdVector<BlockId, GpuId> gpu_of;
  for (int b = 0; b < 48; ++b) gpu_of.push_back(GpuId(b % 24 / 3));
  return gpu_of;
}

// The loads of the map, every block an item of its own.
LoadTracker load_of_the_map(const LoadModel& model) {
  const IdVector<BlockId, GpuId> gpu_of = cyclic_mixed_map();
  return load_of(model, ItemGpus(gpu_of.begin(), gpu_of.end()));
}

// Three encoder and three decoder layers on each GPU. A contiguous cut has
// at most 0.75 in the worse balance (T5.HasNoContiguousCutThatBalancesBoth).
TEST(T5, IsBalancedInComputeAndMemory) {
  const BlockGraph graph = t5_fixture(8, 0_B);
  const MixedPipeResult result = mixed_pipe(graph, options_for(equal_gpus(8, 11_GiB)));
  ASSERT_TRUE(result.fits);
  EXPECT_NEAR(result.compute_balance, 1, 1e-12);
  EXPECT_NEAR(result.memory_balance, 1, 1e-12);
  EXPECT_NEAR(result.objective, 4.05, 1e-12);
  EXPECT_NEAR(result.gap, 0, 1e-12);
  EXPECT_EQ(result.best.stages.size(), 15U);
  for (const Bytes memory : result.best.memory) {
    EXPECT_EQ(memory, 3 * 50'333'696_B + 3 * 67'111'936_B);
  }
}

// With hidden states of 8.4 MB, links of 12 GB/s and layers of 15 ms, as measured for T5-3B.
TEST(T5, KeepsItsBalanceWithTraffic) {
  BlockGraph graph = t5_fixture(8, 8'388'608_B);
  for (GraphBlock& block : graph.blocks) {
    for (double& seconds : block.seconds) seconds *= 0.015;
  }
  MixedMachine machine = equal_gpus(8, 1_GiB);
  for (MixedGpu& gpu : machine.gpus) gpu.in_rate = gpu.out_rate = 12e9;
  MixedPipeOptions options = options_for(machine);
  options.rules.micro_batches = 5;
  const MixedPipeResult result = mixed_pipe(graph, options);
  ASSERT_TRUE(result.fits);
  EXPECT_GE(result.compute_balance, 0.95);
  EXPECT_NEAR(result.gap, 0, 1e-9);
  IdVector<GpuId, double> weights(8, 0.0);
  for (const BlockId b : graph.blocks.ids()) {
    weights[result.best.placement.gpu_of[b]] += static_cast<double>(graph.blocks[b].weight.count);
  }
  const double mean = std::accumulate(weights.begin(), weights.end(), 0.0) / 8;
  EXPECT_GE(mean / std::ranges::max(weights), 0.95);
}

// A budget that the time-balanced contiguous cut (12 decoder layers on a GPU) does not meet.
TEST(T5, FitsWhereNoContiguousCutDoes) {
  const BlockGraph graph = t5_fixture(8, 0_B);
  const Bytes budget = 3 * 50'333'696_B + 3 * 67'111'936_B;
  const MixedPipeResult result = mixed_pipe(graph, options_for(equal_gpus(8, budget)));
  ASSERT_TRUE(result.fits);
  EXPECT_NEAR(result.objective, 4.05, 1e-12);
  for (const SweepRow& row : result.sweep) EXPECT_NE(row.groups, 0) << "a contiguous cut fitted";
}

// The score decides over the period: one that asks for few stages gets a contiguous cut.
TEST(T5, TheCallersScoreDecides) {
  const MixedPipeResult result = mixed_pipe(
      t5_fixture(8, 1_MiB), options_for(equal_gpus(8, 11_GiB)),
      [](const MixedCandidate& candidate) { return static_cast<double>(candidate.stages.size()); });
  EXPECT_LE(result.best.stages.size(), 8U);
  EXPECT_EQ(result.seconds, static_cast<double>(result.best.stages.size()));
  EXPECT_GT(result.objective, 4.05);
  EXPECT_NEAR(result.gap, result.objective / 4.05 - 1, 1e-12);
}

// The load model counts what the table counts: the encoder output alone, 7 + 1 crossings.
TEST(T5, LoadOfTheEncoderOutputIsEightCrossings) {
  BlockGraph graph = t5_fixture(8, 1000_B);
  graph.tensors = {graph.tensors[23]};
  graph.tensors[0].gradient = 0_B;
  const MixedMachine machine = equal_gpus(8, 1_GiB);
  const LoadModel model(graph, machine, single_items(graph), {}, {});
  EXPECT_EQ(load_of_the_map(model).step_bytes(), 8 * 1000_B);
}

// 134.2 MB at 12 GB/s are 11.2 ms, the gather at 550 GB/s takes 0.25 ms; the hidden
// state cannot be made again.
TEST(T5, PositionBiasIsMadeAgainAndHiddenStatesAreSent) {
  MixedMachine machine = equal_gpus(8, 11_GiB);
  for (MixedGpu& gpu : machine.gpus) gpu.in_rate = gpu.out_rate = 12e9;
  BlockGraph graph = t5_fixture(8, Bytes{4LL * 512 * 1024 * 4});
  GraphTensor bias =
      tensor_of(0, {}, Bytes{4LL * 32 * 512 * 512 * 4}, Bytes{4LL * 32 * 512 * 512 * 4});
  for (int b = 1; b < 24; ++b) bias.consumers.push_back(BlockId(b));
  bias.recompute_seconds = 134.2e6 / 550e9;
  bias.recompute_weight = 4_KiB;
  graph.tensors.push_back(bias);
  EXPECT_EQ(bias.forward, 134'217'728_B);
  EXPECT_NEAR(static_cast<double>(bias.forward.count) / 12e9, 11.2e-3, 0.05e-3);

  const std::vector<char> flags = rematerialised_tensors(graph, machine);
  EXPECT_EQ(std::vector<char>(flags.begin(), flags.end() - 1), std::vector<char>(47, 0));
  EXPECT_EQ(flags.back(), 1);

  // It never crosses a border: only its table does, once per step and GPU.
  const LoadModel sent(graph, machine, single_items(graph), {}, {});
  const LoadModel made(graph, machine, single_items(graph), {}, flags);
  const Bytes hidden = load_of_the_map(made).step_bytes() - 7 * 2 * 4_KiB;
  EXPECT_EQ(load_of_the_map(sent).step_bytes() - hidden, (7 + 1) * 2 * bias.forward);

  // Seven other encoder stages make it again, one on each of GPUs 1 to 7.
  const MixedStages stages = StageBuilder(graph).build(gpus_as_bins(cyclic_mixed_map()));
  const IdVector<GpuId, double> seconds = recompute_seconds(graph, flags, stages, 8);
  EXPECT_EQ(seconds[0], 0);
  for (GpuId g(1); g < 8; ++g) EXPECT_EQ(seconds[g], bias.recompute_seconds);
}

TEST(T5, GetsItsQuotasInBothHalves) {
  const BlockGraph graph = t5_fixture(8, 0_B);
  std::vector<int> expected(12, 2);
  expected.resize(16, 6);
  EXPECT_EQ(sizes(coarsen(graph, 16)), expected);
  EXPECT_EQ(coarsen(graph, 48).size(), 48U);
}

// The best contiguous cuts, layers per GPU.
TEST(T5, HasNoContiguousCutThatBalancesBoth) {
  std::vector<double> times(24, 1.0);
  std::vector<double> sizes_of(24, 50'333'696);
  times.resize(48, 0.35);
  sizes_of.resize(48, 67'111'936);
  const std::vector<ParetoCut> pareto = contiguous_pareto(times, sizes_of, 8);

  struct Row {
    std::vector<int> layers;
    double memory;
    double compute;
  };
  const std::vector<Row> table{{{6, 6, 6, 6, 6, 6, 6, 6}, 0.875, 0.675},
                               {{5, 5, 5, 5, 7, 7, 7, 7}, 0.750, 0.802},
                               {{4, 5, 5, 5, 5, 8, 8, 8}, 0.656, 0.810},
                               {{4, 4, 4, 4, 4, 6, 11, 11}, 0.477, 0.862},
                               {{4, 4, 4, 4, 4, 4, 12, 12}, 0.4375, 0.964}};
  // The table leaves out one cut, which has 5e-6 more memory balance than its first row.
  ASSERT_EQ(pareto.size(), table.size() + 1);
  EXPECT_LT(pareto[0].time_balance, 0.51);
  EXPECT_NEAR(pareto[0].size_balance, pareto[1].size_balance, 1e-5);
  for (std::size_t i = 0; i < table.size(); ++i) {
    const ParetoCut& cut = pareto[i + 1];
    Cuts ends(table[i].layers.size());
    std::partial_sum(table[i].layers.begin(), table[i].layers.end(), ends.begin());
    EXPECT_EQ(cut.cuts, ends) << "row " << i;
    EXPECT_NEAR(cut.size_balance, table[i].memory, 5e-4) << "row " << i;
    EXPECT_NEAR(cut.time_balance, table[i].compute, 5e-4) << "row " << i;
  }
  for (const ParetoCut& cut : pareto) {
    EXPECT_LE(std::min(cut.size_balance, cut.time_balance), 0.7501);
  }
}

}  // namespace
}  // namespace ferry
