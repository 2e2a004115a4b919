#include "planner/mixed/mixed_pipe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "planner/mixed/coarsen.h"
#include "planner/mixed/mixed_seeds.h"
#include "planner/mixed/sample_graphs.h"

namespace ferry {
namespace {

MixedPipeOptions options_for(const MixedMachine& machine) {
  MixedPipeOptions options;
  options.machine = machine;
  return options;
}

// Less search than by default: for thousands of small graphs.
MixedPipeOptions quick(const RandomJob& job, std::uint64_t seed) {
  MixedPipeOptions options = options_for(job.machine);
  options.rules = job.rules;
  options.exact_nodes = 100;
  options.refined = 1;
  options.refine.rounds = 3;
  options.refine.moves_per_round = 24;
  options.refine.seed = seed;
  options.group_counts = {job.machine.size(), 3 * job.machine.size()};
  return options;
}

bool same(const MixedCandidate& a, const MixedCandidate& b) {
  return a.placement.gpu_of == b.placement.gpu_of && a.placement.bin_of == b.placement.bin_of &&
         a.period == b.period && a.step_bytes == b.step_bytes && a.memory == b.memory;
}

TEST(MixedPipe, SweepsMultiplesOfTheGpusAndTheBlocks) {
  EXPECT_EQ(swept_group_counts(8, 48), (std::vector<int>{8, 16, 24, 32, 40, 48}));
  EXPECT_EQ(swept_group_counts(4, 26), (std::vector<int>{4, 8, 12, 16, 20, 24, 26}));
  EXPECT_EQ(swept_group_counts(8, 98), (std::vector<int>{8, 16, 24, 32, 40, 48, 56, 64}));
  EXPECT_EQ(swept_group_counts(8, 3), (std::vector<int>{3}));
  EXPECT_EQ(swept_group_counts(1, 1), (std::vector<int>{1}));
}

TEST(MixedPipe, EveryCandidateOfRandomGraphsIsAcyclicAndWithinItsBudgets) {
  int fitting = 0;
  int lacking = 0;
  int candidates = 0;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    const RandomJob job = random_job(seed, 14);
    const StageBuilder builder(job.graph);
    const MixedScore score = [&](const MixedCandidate& candidate) {
      ++candidates;
      EXPECT_TRUE(in_topological_order(builder, candidate.stages)) << "seed " << seed;
      for (const GpuId g : candidate.memory.ids()) {
        EXPECT_LE(candidate.memory[g], job.machine.gpus[g].budget) << "seed " << seed;
      }
      const IdVector<BlockId, GpuId>& gpu_of = candidate.placement.gpu_of;
      for (const std::vector<BlockId>& run : protected_runs(job.graph)) {
        for (const BlockId block : run) {
          EXPECT_EQ(gpu_of[block], gpu_of[run.front()]) << "seed " << seed;
        }
      }
      return candidate.period;
    };
    const MixedPipeResult result = mixed_pipe(job.graph, quick(job, seed), score);
    if (!result.fits) {
      ++lacking;
      EXPECT_FALSE(result.shortage.place.empty()) << "seed " << seed;
      EXPECT_GT(result.shortage.missing(), 0_B) << "seed " << seed;
      continue;
    }
    ++fitting;
    EXPECT_GE(result.objective, result.lower_bound * (1 - 1e-12)) << "seed " << seed;
    EXPECT_LE(result.compute_balance, 1 + 1e-12);
    EXPECT_LE(result.memory_balance, 1 + 1e-12);
    EXPECT_EQ(result.empty_gpus.empty(),
              job.graph.size() >= job.machine.size() && result.empty_gpus.empty());
  }
  EXPECT_GT(fitting, 1200);
  EXPECT_GT(lacking, 100);
  EXPECT_GT(candidates, 10000);
}

// What a candidate says it moves is what its stages' tensors move, counted one by one.
// GPUs that read the tensor and do not make it.
int destinations(const GraphTensor& tensor, const IdVector<BlockId, GpuId>& gpu_of) {
  std::set<GpuId> gpus;
  for (const BlockId reader : tensor.consumers) gpus.insert(gpu_of[reader]);
  gpus.erase(gpu_of[tensor.producer]);
  return static_cast<int>(gpus.size());
}

// Through the host: written once, read by each destination. Tied replicas are summed there, one
// gradient down and one weight up.
TEST(MixedPipe, TrafficIsOncePerDestinationGpuInEveryResult) {
  int checked = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    RandomJob job = random_job(seed, 12);
    job.machine.peer_to_peer = false;
    for (GraphBlock& block : job.graph.blocks) block.step_up = block.step_down = 0_B;
    MixedPipeOptions options = quick(job, seed);
    options.rematerialise = false;
    const MixedPipeResult result = mixed_pipe(job.graph, options);
    if (!result.fits) continue;
    ++checked;
    Bytes total;
    const IdVector<BlockId, GpuId>& gpu_of = result.best.placement.gpu_of;
    for (const GraphTensor& tensor : job.graph.tensors) {
      const int gpus = destinations(tensor, gpu_of);
      const int crossings = gpus == 0 ? 0 : gpus + 1;
      total += job.rules.micro_batches * crossings * (tensor.forward + tensor.gradient);
    }
    for (const TiedWeight& tied : job.graph.tied) {
      const bool together = gpu_of[tied.owner] == gpu_of[tied.readers.front()];
      if (!together) total += tied.weight + tied.gradient;
    }
    EXPECT_EQ(result.best.step_bytes, total) << "seed " << seed;
  }
  EXPECT_GT(checked, 200);
}

TEST(MixedPipe, EqualQuestionsGiveEqualAnswers) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const RandomJob job = random_job(seed, 16);
    const MixedPipeOptions options = quick(job, seed);
    const MixedPipeResult first = mixed_pipe(job.graph, options);
    const MixedPipeResult second = mixed_pipe(job.graph, options);
    ASSERT_EQ(first.fits, second.fits);
    if (first.fits) {
      EXPECT_TRUE(same(first.best, second.best)) << "seed " << seed;
      EXPECT_EQ(first.sweep.size(), second.sweep.size());
    }
  }
}

// Whatever the seeds are, refining them never makes them worse, and no round changes nothing.
TEST(MixedRefine, RoundsBoundTheChanges) {
  int improved = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    const RandomJob job = random_job(seed, 16);
    const std::vector<char> none(job.graph.tensors.size(), 0);
    CandidateMaker maker(job.graph, job.machine, job.rules, holds_1f1b(2), none);
    const Seeds seeds = group_seeds({job.graph, job.machine, job.rules, 0}, maker,
                                    coarsen(job.graph, 2 * job.machine.size()), {});
    if (seeds.fitting.empty()) continue;
    const MixedCandidate& first = seeds.fitting.front();
    const RatedCandidate start{first, maker.key(first, first.period)};
    RefineOptions options;
    options.rounds = 0;
    EXPECT_TRUE(same(refine(maker, start, {}, options, {}).candidate, first));
    MixedKey before = start.key;
    for (const int rounds : {1, 2, 8}) {
      options.rounds = rounds;
      const RatedCandidate after = refine(maker, start, {}, options, {});
      EXPECT_FALSE(before.beats(after.key)) << "seed " << seed << ", " << rounds << " rounds";
      if (after.key.beats(start.key)) ++improved;
      before = after.key;
    }
  }
  EXPECT_GT(improved, 50);
}

TEST(MixedPipe, AChainOfEqualBlocksStaysContiguous) {
  const BlockGraph graph = chain_of({1, 1, 1, 1, 1, 1, 1, 1}, 4, 1_MiB);
  const MixedPipeResult result = mixed_pipe(graph, options_for(equal_gpus(4, 1_GiB)));
  EXPECT_EQ(result.objective, 2);
  EXPECT_EQ(result.gap, 0);
  EXPECT_EQ(result.best.stages.size(), 4U);
  EXPECT_EQ(result.best.step_bytes, 3 * 2 * 2 * 1_MiB);  // three borders, both ways, two crossings
}

// The formulas bound {10, 6, 6, 6} on two GPUs by 14; the exact search proves 16.
TEST(MixedPipe, AProvenOptimumIsTheBound) {
  const MixedPipeResult result =
      mixed_pipe(chain_of({10, 6, 6, 6}, 2, 0_B), options_for(equal_gpus(2, 1_GiB)));
  EXPECT_EQ(result.objective, 16);
  EXPECT_EQ(result.lower_bound, 16);
  EXPECT_EQ(result.gap, 0);
}

// Speeds (2, 1, 1): loads within one block of proportional, and no GPU above its own budget.
TEST(MixedPipe, UnequalGpusGetProportionalWork) {
  BlockGraph graph = chain_of(std::vector<double>(24, 0.0), 3, 1_B);
  for (GraphBlock& block : graph.blocks) {
    block.seconds = {0.5, 1, 1};
    block.weight = 10_B;
  }
  MixedMachine machine = equal_gpus(3, 1000_B);
  const MixedPipeResult roomy = mixed_pipe(graph, options_for(machine));
  ASSERT_TRUE(roomy.fits);
  EXPECT_NEAR(roomy.lower_bound, 6, 1e-9);
  EXPECT_EQ(roomy.objective, 6);
  EXPECT_EQ(roomy.best.compute, (IdVector<GpuId, double>{6, 6, 6}));

  machine.gpus[0].budget = 90_B;  // the fast one holds eight blocks and their borders' buffers
  const MixedPipeResult tight = mixed_pipe(graph, options_for(machine));
  ASSERT_TRUE(tight.fits);
  EXPECT_LE(tight.best.memory[0], 90_B);
  EXPECT_EQ(std::ranges::count(tight.best.placement.gpu_of, GpuId(0)), 8);
  EXPECT_EQ(tight.objective, 8);
}

TEST(MixedPipe, OneGpuTakesEverything) {
  const BlockGraph graph = chain_of({1, 2, 3}, 1, 0_B);
  MixedPipeOptions options = options_for(equal_gpus(1, 1_GiB));
  const MixedPipeResult resident = mixed_pipe(graph, options);
  ASSERT_TRUE(resident.fits);
  EXPECT_EQ(resident.objective, 6);
  EXPECT_EQ(resident.lower_bound, 6);
  EXPECT_EQ(resident.gap, 0);
  EXPECT_EQ(resident.best.stages.size(), 1U);

  // Streamed weights visit group by group, and three visits need the least memory at once.
  BlockGraph streamed = graph;
  for (GraphBlock& block : streamed.blocks) block.weight = 100_B;
  options.rules.streamed_weights = true;
  const MixedPipeResult visits = mixed_pipe(streamed, options);
  ASSERT_TRUE(visits.fits);
  EXPECT_EQ(visits.best.stages.size(), 3U);
  EXPECT_EQ(visits.objective, 6);
  EXPECT_EQ(visits.gap, 0);
}

TEST(MixedPipe, MoreGpusThanBlocksLeavesSomeEmpty) {
  const MixedPipeResult result =
      mixed_pipe(chain_of({1, 2}, 4, 1_B), options_for(equal_gpus(4, 1_GiB)));
  ASSERT_TRUE(result.fits);
  EXPECT_EQ(result.objective, 2);
  EXPECT_EQ(result.empty_gpus.size(), 2U);

  const MixedPipeResult one = mixed_pipe(chain_of({5}, 3, 1_B), options_for(equal_gpus(3, 1_GiB)));
  EXPECT_EQ(one.objective, 5);
  EXPECT_EQ(one.empty_gpus.size(), 2U);
}

TEST(MixedPipe, AnInfeasibleJobNamesPlaceAndBytes) {
  BlockGraph graph = chain_of({1, 1, 1}, 2, 0_B);
  for (GraphBlock& block : graph.blocks) block.weight = 100_B;
  const MixedPipeResult result = mixed_pipe(graph, options_for(equal_gpus(2, 150_B)));
  EXPECT_FALSE(result.fits);
  EXPECT_TRUE(result.shortage.proven);
  EXPECT_EQ(result.shortage.place, "gpu0");
  EXPECT_EQ(result.shortage.needed, 200_B);
  EXPECT_EQ(result.shortage.missing(), 50_B);
}

// Weights alone would fit; the stage inputs of the micro-batches in flight do not.
TEST(MixedPipe, InputsInFlightCountAgainstTheBudget) {
  BlockGraph graph = chain_of({1, 1}, 2, 10_B);
  for (GraphBlock& block : graph.blocks) block.weight = 50_B;
  MixedPipeOptions options = options_for(equal_gpus(2, 95_B));
  options.rules.micro_batches = 8;
  options.holds = [](const MixedStages& stages) { return StagesHold(stages.size(), {1}); };
  EXPECT_FALSE(mixed_pipe(graph, options).fits);  // 50 + 2 * 20 of buffers + 10
  options.machine = equal_gpus(2, 100_B);
  EXPECT_TRUE(mixed_pipe(graph, options).fits);
  options.holds = [](const MixedStages& stages) { return StagesHold(stages.size(), {8}); };
  const MixedPipeResult result = mixed_pipe(graph, options);
  EXPECT_TRUE(result.fits);  // ... but then both blocks share one GPU
  EXPECT_EQ(result.empty_gpus.size(), 1U);
}

// Embedding and head share a weight. Over a slow link they share a GPU, which no contiguous cut can
// do; when they are most of the compute, replicas are summed once per step.
TEST(MixedPipe, TiedBlocksShareAGpuOrAreReplicated) {
  BlockGraph graph = chain_of({1, 2, 2, 2, 2, 1}, 2, 10_B);
  graph.blocks[0].weight = graph.blocks[0].gradient = 1000_B;
  graph.tied.push_back({0, {5}, 1000_B, 1000_B});
  MixedMachine machine = equal_gpus(2, 1_GiB);
  for (MixedGpu& gpu : machine.gpus) gpu.in_rate = gpu.out_rate = 100;
  const MixedPipeResult shared = mixed_pipe(graph, options_for(machine));
  ASSERT_TRUE(shared.fits);
  EXPECT_EQ(shared.tied_on_one_gpu, std::vector<char>{1});
  EXPECT_EQ(shared.objective, 6);  // a replica's 1000 bytes would take 10 seconds

  for (MixedGpu& gpu : machine.gpus) gpu.in_rate = gpu.out_rate = 1000;
  graph.blocks[0].seconds = graph.blocks[5].seconds = {9, 9};
  const MixedPipeResult replicas = mixed_pipe(graph, options_for(machine));
  ASSERT_TRUE(replicas.fits);
  EXPECT_EQ(replicas.tied_on_one_gpu, std::vector<char>{0});
  EXPECT_EQ(replicas.objective, 13);  // 18 with both on one GPU
}

// A large cheap tensor with many consumers is made again instead of sent.
TEST(MixedPipe, CheapTensorsAreMadeAgain) {
  BlockGraph graph = chain_of({1, 1, 1, 1}, 2, 10_B);
  graph.tensors.push_back(tensor_of(0, {1, 2, 3}, 1000_B, 1000_B));
  graph.tensors.back().recompute_seconds = 0.25;
  MixedMachine machine = equal_gpus(2, 1_GiB);
  for (MixedGpu& gpu : machine.gpus) gpu.in_rate = gpu.out_rate = 100;
  MixedPipeOptions options = options_for(machine);
  const MixedPipeResult made = mixed_pipe(graph, options);
  EXPECT_EQ(made.rematerialised, (std::vector<char>{0, 0, 0, 1}));
  EXPECT_EQ(made.objective, 2.25);
  options.rematerialise = false;
  EXPECT_EQ(mixed_pipe(graph, options).objective, 4);  // all on one GPU is faster than to send it
}

}  // namespace
}  // namespace ferry
