#include "planner/cuts/mip.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "planner/cuts/sample_chains.h"

namespace ferry {
namespace {

constexpr double kTolerance = 1e-6;  // of the step; what a solver's arithmetic can tell apart

// The least step over all contiguous partitions into `stages` stages (0: any number); infinity when
// nothing fits.
double brute_force(const SampleChain& chain, int stages) {
  double least = std::numeric_limits<double>::infinity();
  for (const Partition& partition : all_partitions(chain.problem, chain.blocks)) {
    if (stages == 0 || static_cast<int>(partition.ends.size()) == stages) {
      least = std::min(least, partition.step);
    }
  }
  return least;
}

bool any_evaluated(const MipResult& found) {
  return std::ranges::any_of(found.stage_counts, &StageCountResult::evaluated);
}

// By the program alone.
void expect_optimum(const MipResult& found, double optimum) {
  EXPECT_TRUE(found.exact);
  EXPECT_FALSE(any_evaluated(found));
  ASSERT_EQ(found.ends.empty(), optimum == std::numeric_limits<double>::infinity());
  if (found.ends.empty()) return;
  EXPECT_NEAR(found.step, optimum, kTolerance * optimum);
  EXPECT_LE(found.lower_bound, found.step);
  EXPECT_GE(found.lower_bound, optimum * (1 - 2 * kTolerance));
  EXPECT_LE(found.lower_bound, optimum * (1 + kTolerance));
}

TEST(Mip, VectorsOfThePartitionerAreReproduced) {
  const MipResult one = solve_partition_mip(flat_problem(2, 2, 12, 1), six_layers(), {});
  EXPECT_NEAR(one.step, 37.8, 1e-9);
  EXPECT_EQ(one.ends, (std::vector<int>{1, 3, 5, 6}));
  EXPECT_TRUE(one.exact);
  const MipResult two = solve_partition_mip(flat_problem(2, 4, 12, 1), six_layers(), {});
  EXPECT_NEAR(two.step, 64.0, 1e-9);
  EXPECT_EQ(two.ends, (std::vector<int>{1, 2, 3, 5, 6}));
  EXPECT_TRUE(two.exact);
}

TEST(Mip, EveryStageCountOfThePaperVectorsHasTheBruteForceOptimum) {
  for (const int micro_batches : {2, 4}) {
    const SampleChain chain{flat_problem(2, micro_batches, 12, 1), six_layers()};
    for (int stages = 1; stages <= 6; ++stages) {
      SCOPED_TRACE(stages);
      MipLimits limits;
      limits.stages = stages;
      expect_optimum(solve_partition_mip(chain.problem, chain.blocks, limits),
                     brute_force(chain, stages));
    }
  }
}

TEST(Mip, TheOptimumOfUnevenChainsIsThatOfBruteForceAndBranchAndBound) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const SampleChain chain = uneven_chain(seed, 2 + seed % 9, SampleCosts::as_printed);
    const double optimum = brute_force(chain, 0);
    expect_optimum(solve_partition_mip(chain.problem, chain.blocks, {}), optimum);
    const PartitionResult search = branch_and_bound(chain.problem, chain.blocks, 1);
    ASSERT_EQ(search.best.empty(), optimum == std::numeric_limits<double>::infinity());
    if (search.best.empty()) continue;
    EXPECT_NEAR(search.best.front().step, optimum, 1e-9 * optimum);
  }
}

// One stage count at a time, where the program starts from no branch and bound's answer.
TEST(Mip, OneStageCountHasTheBruteForceOptimum) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const SampleChain chain = uneven_chain(seed, 10, SampleCosts::as_printed);
    MipLimits limits;
    limits.stages = 2 + static_cast<int>(seed % 7);
    expect_optimum(solve_partition_mip(chain.problem, chain.blocks, limits),
                   brute_force(chain, limits.stages));
  }
}

TEST(Mip, MergedEqualLayersKeepTheOptimum) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const SampleChain chain = repeated_chain(seed, 10);
    MipLimits limits;
    limits.stages = seed % 2 == 0 ? 0 : 2 + static_cast<int>(seed % 7);
    expect_optimum(solve_partition_mip(chain.problem, chain.blocks, limits),
                   brute_force(chain, limits.stages));
  }
}

TEST(Mip, FirstLoadsDownloadsAndUpdatesAreInTheProgram) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SampleChain chain = uneven_chain(seed, 8, SampleCosts::real);
    chain.problem.switches.stage_overhead = 0;
    MipLimits limits;
    limits.stages = seed % 2 == 0 ? 0 : 2 + static_cast<int>(seed % 6);
    expect_optimum(solve_partition_mip(chain.problem, chain.blocks, limits),
                   brute_force(chain, limits.stages));
  }
}

// The program may start a stage a little later so that an upload completes and costs no overhead;
// the evaluator does not. So its optimum is a bound, and mostly the evaluator's.
TEST(Mip, WithAnOverheadTheBoundHoldsAndIsClose) {
  int exact = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SampleChain chain = uneven_chain(seed, 8, SampleCosts::real);
    chain.problem.switches.stage_overhead = 0.05;
    const double optimum = brute_force(chain, 0);
    const MipResult found = solve_partition_mip(chain.problem, chain.blocks, {});
    exact += found.exact;
    ASSERT_EQ(found.ends.empty(), optimum == std::numeric_limits<double>::infinity());
    if (found.ends.empty()) continue;
    EXPECT_NEAR(found.step, optimum, kTolerance * optimum);
    EXPECT_LE(found.lower_bound, optimum * (1 + kTolerance));
    EXPECT_LE(found.gap, 0.01);
  }
  EXPECT_GE(exact, 50);
}

// What mip_model.h argues: the first and the last micro-batch decide.
TEST(Mip, StartTimesOfEveryMicroBatchChangeNothing) {
  for (std::uint64_t seed = 1; seed <= 25; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SampleChain chain = uneven_chain(seed, 7, SampleCosts::as_printed);
    chain.problem.micro_batches = 3 + static_cast<int>(seed % 4);
    MipLimits limits;
    limits.stages = 2 + static_cast<int>(seed % 5);
    limits.every_micro_batch = true;
    expect_optimum(solve_partition_mip(chain.problem, chain.blocks, limits),
                   brute_force(chain, limits.stages));
  }
}

TEST(Mip, NothingIsFoundWhenABlockExceedsTheDevice) {
  const MipResult found = solve_partition_mip(flat_problem(2, 2, 4, 1), six_layers(), {});
  EXPECT_TRUE(found.ends.empty());
  EXPECT_TRUE(found.exact);
  EXPECT_TRUE(found.stage_counts.empty());
}

TEST(Mip, WithoutEffortTheAnswerIsTheSearchAndTheBoundHolds) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const SampleChain chain = uneven_chain(seed, 10, SampleCosts::as_printed);
    const double optimum = brute_force(chain, 0);
    MipLimits limits;
    limits.effort = 0;
    const MipResult found = solve_partition_mip(chain.problem, chain.blocks, limits);
    EXPECT_EQ(found.iterations, 0);
    if (found.ends.empty()) continue;
    EXPECT_GE(found.step, optimum * (1 - 1e-9));
    EXPECT_LE(found.lower_bound, optimum * (1 + kTolerance));
    EXPECT_NEAR(found.gap, (found.step - found.lower_bound) / found.step, 1e-12);
  }
}

TEST(Mip, AnEffortLimitGivesTheSameAnswerTwice) {
  SampleChain chain = uneven_chain(6, 16, SampleCosts::as_printed);
  chain.problem.memory *= 2;
  MipLimits limits;
  limits.stages = 9;
  limits.effort = 100'000;  // spent before all partitions could be evaluated
  const MipResult first = solve_partition_mip(chain.problem, chain.blocks, limits);
  const MipResult second = solve_partition_mip(chain.problem, chain.blocks, limits);
  ASSERT_FALSE(first.ends.empty());
  EXPECT_FALSE(first.exact);
  EXPECT_GT(first.gap, 0);
  EXPECT_LT(first.gap, 0.1);
  EXPECT_GT(first.iterations, 0);
  EXPECT_EQ(first.ends, second.ends);
  EXPECT_EQ(first.lower_bound, second.lower_bound);
  EXPECT_EQ(first.nodes, second.nodes);
  EXPECT_EQ(first.iterations, second.iterations);
}

TEST(Mip, FewPartitionsThatTheProgramLeavesOpenAreEvaluated) {
  int evaluated = 0;
  for (const std::uint64_t seed : {21, 22}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SampleChain chain = uneven_chain(seed, 16, SampleCosts::as_printed);
    chain.problem.memory *= 2;
    MipLimits limits;
    limits.stages = 7;
    const MipResult found = solve_partition_mip(chain.problem, chain.blocks, limits);
    const double optimum = brute_force(chain, limits.stages);
    EXPECT_TRUE(found.exact);
    EXPECT_NEAR(found.step, optimum, kTolerance * optimum);
    evaluated += any_evaluated(found);
  }
  EXPECT_GT(evaluated, 0);
}

TEST(Mip, NinetySixEqualLayersOnEightDevicesAreProven) {
  const SampleChain chain = equal_layers(96, 8, 8);
  const MipResult found = solve_partition_mip(chain.problem, chain.blocks, {});
  EXPECT_TRUE(found.exact);
  EXPECT_EQ(found.step, evaluate_stages(chain.problem, stages_of(chain.blocks, found.ends)).step);
  // The search alone is close: its bound needs no solver.
  const PartitionResult search = search_partition(chain.problem, chain.blocks, 1);
  EXPECT_FALSE(search.exact);
  EXPECT_LE(search.gap, 0.01);
  EXPECT_LE(search.lower_bound, found.lower_bound * (1 + kTolerance));
}

}  // namespace
}  // namespace ferry
