#include "planner/mixed/assign.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "planner/mixed/assign_bounds.h"
#include "planner/mixed/exact_assign.h"
#include "planner/mixed/sample_graphs.h"
#include "planner/mixed/skip_tensors.h"
#include "planner/mixed/splitmix.h"

namespace ferry {
namespace {

constexpr Bytes kRoomy{1 << 30};

// A model of items without tensors; keeps what the model refers to.
struct Packing {
  Packing(const std::vector<double>& weights, int gpus)
      : machine(equal_gpus(gpus, kRoomy)),
        graph(weighted_blocks(weights, gpus)),
        model(graph, machine, single_items(graph), {}, {}) {}

  double longest(const std::vector<ItemId>& order) const {
    return load_of(model, list_assign(model, order, budgets_of(machine)).value()).period();
  }
  double by_lpt() const { return longest(heaviest_first(model, LptKey::compute, {})); }
  // The slip in FTPipe's code: the list sorted by decreasing weight is consumed from its end.
  double lightest_first() const {
    std::vector<ItemId> order = heaviest_first(model, LptKey::compute, {});
    std::ranges::reverse(order);
    return longest(order);
  }

  MixedMachine machine;
  BlockGraph graph;
  LoadModel model;
};

struct BestOfAll {
  bool found = false;
  double period = 0;
  Bytes bytes;
};

// Tries every assignment.
BestOfAll brute_force(const LoadModel& model, const GpuBytes& budgets) {
  BestOfAll best;
  ItemGpus gpu_of(model.items().size(), GpuId(0));
  while (true) {
    const LoadTracker load = load_of(model, gpu_of);
    if (load.within(budgets)) {
      const double period = load.period();
      const bool shorter = period < best.period * (1 - 1e-12);
      const bool cheaper = period <= best.period * (1 + 1e-12) && load.step_bytes() < best.bytes;
      if (!best.found || shorter || cheaper) best = {true, period, load.step_bytes()};
    }
    auto digit = gpu_of.begin();
    while (digit != gpu_of.end() && ++*digit == model.gpus()) *digit++ = GpuId(0);
    if (digit == gpu_of.end()) return best;
  }
}

struct Means {
  double lpt = 0;
  double lightest_first = 0;
};

Means mean_ratios(int gpus, int items) {
  constexpr int kInstances = 2000;
  SplitMix random(static_cast<std::uint64_t>(1000 * gpus + items));
  Means means;
  for (int instance = 0; instance < kInstances; ++instance) {
    std::vector<double> weights;
    for (int i = 0; i < items; ++i) weights.push_back(50000 + random.below(100001));
    const double bound = std::max(std::accumulate(weights.begin(), weights.end(), 0.0) / gpus,
                                  std::ranges::max(weights));
    const Packing packing(weights, gpus);
    means.lpt += packing.by_lpt() / bound / kInstances;
    means.lightest_first += packing.lightest_first() / bound / kInstances;
  }
  return means;
}

TEST(Assign, LptHasTheMeansOfTheTableAndTheReversedOrderDoesNot) {
  const Means small = mean_ratios(4, 8);
  EXPECT_NEAR(small.lpt, 1.066500, 1e-6);
  EXPECT_NEAR(small.lightest_first, 1.168391, 1e-6);
  const Means large = mean_ratios(8, 16);
  EXPECT_NEAR(large.lpt, 1.063761, 1e-6);
  EXPECT_NEAR(large.lightest_first, 1.207177, 1e-6);
}

TEST(Assign, HeavyAndLightGroupsPairUp) {
  std::vector<double> weights(8, 1000);
  weights.resize(16, 350);
  const Packing equal(weights, 8);
  EXPECT_EQ(equal.by_lpt(), 1350);
  EXPECT_EQ(equal.lightest_first(), 1350);

  for (std::size_t i = 0; i < 8; ++i) {
    weights[i] = 1000 + 20 * static_cast<double>(i);
    weights[i + 8] = 350 + 10 * static_cast<double>(i);
  }
  const Packing graded(weights, 8);
  EXPECT_EQ(graded.by_lpt(), 1490);
  EXPECT_EQ(graded.lightest_first(), 1560);
  EXPECT_EQ(std::accumulate(weights.begin(), weights.end(), 0.0) / 8, 1455);
  EXPECT_NEAR(1490.0 / 1455, 1.0241, 5e-5);
  EXPECT_NEAR(1560.0 / 1455, 1.0722, 5e-5);
}

TEST(Assign, LptKeepsGrahamsRatioAndBoundsNeverExceedTheOptimum) {
  SplitMix random(7);
  for (int instance = 0; instance < 120; ++instance) {
    const int gpus = 2 + random.below(2);
    const int items = 1 + random.below(gpus == 2 || instance % 10 == 0 ? 10 : 8);
    std::vector<double> weights;
    for (int i = 0; i < items; ++i) weights.push_back(1 + random.below(40));
    const Packing packing(weights, gpus);
    const double optimum = brute_force(packing.model, budgets_of(packing.machine)).period;
    const double bound = equal_gpu_bound(weights, gpus);
    EXPECT_LE(bound, optimum * (1 + 1e-12)) << "instance " << instance;
    EXPECT_LE(packing.by_lpt(), optimum * (4.0 / 3 - 1.0 / (3 * gpus)) * (1 + 1e-12));
    const AssignResult result = assign(packing.model, budgets_of(packing.machine), 100000);
    EXPECT_EQ(result.period, optimum) << "instance " << instance;
    EXPECT_TRUE(result.period_exact);
    if (bound == optimum) {
      EXPECT_EQ(gap_of(result.period, result.lower_bound), 0);
    }
  }
}

// Five items on two GPUs: some GPU gets three of {3, 3, 3, 3, 3}; the mean alone says 7.5.
TEST(Assign, PigeonholeBoundCountsTheLightestOfTheHeaviest) {
  EXPECT_EQ(equal_gpu_bound({3, 3, 3, 3, 3}, 2), 9);
  EXPECT_EQ(equal_gpu_bound({9, 8, 7, 1}, 3), 9);
  EXPECT_EQ(equal_gpu_bound({9, 8, 7, 6, 1}, 3), 13);
  EXPECT_EQ(equal_gpu_bound({5}, 4), 5);
}

TEST(Assign, ExactSearchEqualsBruteForceWithMemoryAndTraffic) {
  int fitting = 0;
  int lacking = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    RandomJob job = random_job(seed, 6);
    // Halved budgets, so that memory decides in part of the instances.
    if (seed % 2 == 0) {
      for (MixedGpu& gpu : job.machine.gpus) gpu.budget.count /= 2;
    }
    const LoadModel model(job.graph, job.machine, single_items(job.graph), job.rules,
                          rematerialised_tensors(job.graph, job.machine));
    const GpuBytes budgets = budgets_of(job.machine);
    const BestOfAll best = brute_force(model, budgets);
    const AssignResult result = assign(model, budgets, 1'000'000);
    ASSERT_EQ(result.gpu_of_item.empty(), !best.found) << "seed " << seed;
    if (!best.found) {
      ++lacking;
      EXPECT_TRUE(result.shortage.proven) << "seed " << seed;
      EXPECT_GT(result.shortage.missing(), 0_B) << "seed " << seed;
      continue;
    }
    ++fitting;
    EXPECT_NEAR(result.period, best.period, 1e-9 * best.period) << "seed " << seed;
    EXPECT_EQ(result.step_bytes, best.bytes) << "seed " << seed;
    EXPECT_TRUE(result.period_exact && result.bytes_exact) << "seed " << seed;
    EXPECT_LE(result.lower_bound, best.period * (1 + 1e-12)) << "seed " << seed;
  }
  EXPECT_GT(fitting, 100);
  EXPECT_GT(lacking, 20);
}

// Whatever is placed and taken back on the way, a state's loads are those of a fresh one.
TEST(Assign, TakingBackRestoresEveryLoad) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const RandomJob job = random_job(seed, 10);
    const LoadModel model(job.graph, job.machine, single_items(job.graph), job.rules, {});
    SplitMix random(seed);
    LoadTracker tracker(model);
    const auto any_gpu = [&] { return GpuId(random.below(model.gpus())); };
    ItemGpus gpu_of;
    const ItemId last = --model.items().end_id();
    for (const ItemId item : model.items().ids()) {
      const int detours = random.below(3);
      for (int d = 0; d < detours; ++d) {
        tracker.place(item, any_gpu());
        if (item < last) {
          tracker.place(last, any_gpu());
          tracker.undo();
        }
        tracker.undo();
      }
      gpu_of.push_back(any_gpu());
      tracker.place(item, gpu_of.back());
    }
    const LoadTracker fresh = load_of(model, gpu_of);
    EXPECT_EQ(tracker.period(), fresh.period()) << "seed " << seed;
    EXPECT_EQ(tracker.step_bytes(), fresh.step_bytes()) << "seed " << seed;
    for (const GpuId g : model.gpu_ids()) EXPECT_EQ(tracker.memory(g), fresh.memory(g));
  }
}

// A tensor of 10 bytes with four consumers on two other GPUs comes to each of these once, and
// leaves the producer's GPU once when the host stages it.
TEST(Assign, HyperEdgeCountsOncePerDestinationGpu) {
  MixedMachine machine = equal_gpus(3, kRoomy);
  BlockGraph graph = weighted_blocks({1, 1, 1, 1, 1, 1}, 3);
  graph.tensors.push_back(tensor_of(0, {1, 2, 3, 4, 5}, 10_B, 0_B));
  const ItemGpus gpu_of{0, 0, 1, 1, 2, 2};
  const LoadModel staged(graph, machine, single_items(graph), {}, {});
  const LoadTracker load = load_of(staged, gpu_of);
  EXPECT_EQ(load.step_in(0), 0_B);
  EXPECT_EQ(load.step_in(1), 10_B);
  EXPECT_EQ(load.step_in(2), 10_B);
  EXPECT_EQ(load.step_out(0), 10_B);  // k + 1 crossings for k = 2

  machine.peer_to_peer = true;
  const LoadModel direct(graph, machine, single_items(graph), {}, {});
  EXPECT_EQ(load_of(direct, gpu_of).step_out(0), 20_B);
}

TEST(Assign, GradientsReturnTheOtherWay) {
  const MixedMachine machine = equal_gpus(3, kRoomy);
  BlockGraph graph = weighted_blocks({1, 1, 1}, 3);
  graph.tensors.push_back(tensor_of(0, {1, 2}, 10_B, 3_B));
  LoadRules rules;
  rules.micro_batches = 4;
  const LoadModel model(graph, machine, single_items(graph), rules, {});
  const LoadTracker load = load_of(model, {0, 1, 2});
  EXPECT_EQ(load.step_out(0), 40_B);  // written once
  EXPECT_EQ(load.step_in(0), 12_B);   // the host's sum of both gradients, once
  EXPECT_EQ(load.step_out(1), 12_B);
  EXPECT_EQ(load.step_in(1), 40_B);
}

TEST(Assign, SharedLinkCarriesTheSumOfTheGpusBelowIt) {
  MixedMachine machine = equal_gpus(4, kRoomy);
  machine.links.push_back({"root0", {0, 1}, 10, 5});
  const BlockGraph graph = chain_of({0, 0, 0, 0}, 4, 100_B);
  const LoadModel model(graph, machine, single_items(graph), {}, {});
  // gpu0 and gpu1 send 200 and take 100 forward, and the other way round for gradients.
  EXPECT_EQ(load_of(model, {0, 1, 2, 3}).period(), 300.0 / 5);
  machine.peer_to_peer = true;  // then what passes between the two stays below the link
  EXPECT_EQ(load_of(model, {0, 1, 2, 3}).period(), 100.0 / 5);
}

TEST(Assign, ReplicaOfATiedWeightCostsMemoryAndTrafficOncePerGpu) {
  const MixedMachine machine = equal_gpus(3, kRoomy);
  BlockGraph graph = weighted_blocks({1, 1, 1, 1}, 3);
  graph.blocks[0].weight = graph.blocks[0].gradient = 100_B;
  graph.tied.push_back({0, {2, 3}, 100_B, 100_B});
  const LoadModel model(graph, machine, single_items(graph), {}, {});
  EXPECT_EQ(load_of(model, {0, 1, 0, 0}).step_bytes(), 0_B);
  const LoadTracker apart = load_of(model, {0, 1, 2, 2});
  EXPECT_EQ(apart.memory(2), 200_B);
  EXPECT_EQ(apart.step_in(2), 100_B);
  EXPECT_EQ(apart.step_out(2), 100_B);
  EXPECT_EQ(load_of(model, {0, 1, 1, 2}).step_bytes(), 400_B);
}

// Three blocks of 6, 5 and 5 seconds; the two longest are too large for one GPU together.
TEST(Assign, MemoryMovesAnItemToABusierGpu) {
  MixedMachine machine = equal_gpus(2, 10_B);
  BlockGraph graph = weighted_blocks({6, 5, 5}, 2);
  graph.blocks[0].weight = 2_B;
  graph.blocks[1].weight = 6_B;
  graph.blocks[2].weight = 6_B;
  const LoadModel model(graph, machine, single_items(graph), {}, {});
  const AssignResult result = assign(model, budgets_of(machine), 1000);
  EXPECT_EQ(result.period, 11);
  EXPECT_TRUE(result.period_exact);
  EXPECT_NE(result.gpu_of_item[1], result.gpu_of_item[2]);
}

TEST(Assign, ShortageNamesThePlaceAndItsBytes) {
  MixedMachine machine = equal_gpus(2, 10_B);
  machine.gpus[0].context = 1_B;
  BlockGraph graph = weighted_blocks({1, 1}, 2);
  graph.blocks[0].weight = 14_B;
  graph.blocks[1].weight = 2_B;
  const LoadModel model(graph, machine, single_items(graph), {}, {});
  const AssignResult result = assign(model, budgets_of(machine), 1000);
  EXPECT_TRUE(result.gpu_of_item.empty());
  EXPECT_TRUE(result.shortage.proven);
  EXPECT_EQ(result.shortage.place, "gpu1");  // without a context it is the nearer one
  EXPECT_EQ(result.shortage.needed, 14_B);
  EXPECT_EQ(result.shortage.missing(), 4_B);
}

TEST(Assign, SpeedsGiveTheBoundOfWorkOverSpeed) {
  BlockGraph graph = weighted_blocks({4, 4, 4, 4}, 3);
  for (GraphBlock& block : graph.blocks) block.seconds = {2, 4, 4};  // speeds 2, 1, 1
  const MixedMachine machine = equal_gpus(3, kRoomy);
  const LoadModel model(graph, machine, single_items(graph), {}, {});
  EXPECT_NEAR(assignment_lower_bound(model), 4, 1e-12);
  const AssignResult result = assign(model, budgets_of(machine), 1000);
  EXPECT_EQ(result.period, 4);
  EXPECT_EQ(std::ranges::count(result.gpu_of_item, GpuId(0)), 2);
}

TEST(Assign, NodeLimitKeepsTheIncumbentAndClaimsNoProof) {
  std::vector<double> weights;
  SplitMix random(3);
  for (int i = 0; i < 20; ++i) weights.push_back(50000 + random.below(100001));
  const Packing packing(weights, 4);
  const AssignResult few = assign(packing.model, budgets_of(packing.machine), 1);
  EXPECT_LE(few.period, packing.by_lpt());
  EXPECT_FALSE(few.period_exact);
  const AssignResult many = assign(packing.model, budgets_of(packing.machine), 20000);
  EXPECT_LT(many.period, few.period);
  EXPECT_GE(many.period, many.lower_bound);
}

TEST(Assign, StreamedBytesBoundEveryAssignment) {
  MixedMachine machine = equal_gpus(2, kRoomy);
  for (MixedGpu& gpu : machine.gpus) gpu.in_rate = gpu.out_rate = 10;
  machine.links.push_back({"root", {0, 1}, 15, 15});
  BlockGraph graph = weighted_blocks({1, 1}, 2);
  for (GraphBlock& block : graph.blocks) block.step_up = 300_B;
  LoadRules rules;
  rules.micro_batches = 2;
  const LoadModel model(graph, machine, single_items(graph), rules, {});
  EXPECT_EQ(assignment_lower_bound(model), 20);  // 600 bytes at 15 per second over 2 micro-batches
}

}  // namespace
}  // namespace ferry
