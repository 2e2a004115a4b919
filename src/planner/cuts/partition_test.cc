#include "planner/cuts/partition.h"

#include <gtest/gtest.h>

#include <limits>

#include "planner/cuts/sample_chains.h"

namespace ferry {
namespace {

constexpr double kTolerance = 1e-9;

TEST(Partition, VectorOneOfThePartitionerIsReproduced) {
  const auto question = flat_problem(2, 2, 12, 1);
  const auto all = all_partitions(question, six_layers());
  EXPECT_EQ(all.size(), 24U);
  double worst = 0;
  for (const Partition& partition : all) worst = std::max(worst, partition.step);
  EXPECT_NEAR(worst, 54.5, kTolerance);

  const PartitionResult result = search_partition(question, six_layers(), 2);
  ASSERT_EQ(result.best.size(), 2U);
  EXPECT_TRUE(result.exact);
  EXPECT_EQ(result.best[0].ends, (std::vector<int>{1, 3, 5, 6}));
  EXPECT_NEAR(result.best[0].step, 37.8, kTolerance);
  EXPECT_NEAR(result.best[1].step, 38.6, kTolerance);
}

TEST(Partition, VectorTwoOfThePartitionerIsReproduced) {
  const auto question = flat_problem(2, 4, 12, 1);
  const PartitionResult result = search_partition(question, six_layers(), 2);
  ASSERT_EQ(result.best.size(), 2U);
  EXPECT_EQ(result.best[0].ends, (std::vector<int>{1, 2, 3, 5, 6}));
  EXPECT_NEAR(result.best[0].step, 64.0, kTolerance);
  EXPECT_EQ(result.best[1].ends, (std::vector<int>{2, 5, 6}));
  EXPECT_NEAR(result.best[1].step, 64.8, kTolerance);
  const auto finest = evaluate_stages(question, six_layers());
  EXPECT_NEAR(finest.step, 68.4, kTolerance);
}

TEST(Partition, BranchAndBoundAgreesWithBruteForce) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const SampleChain chain = uneven_chain(seed, 3 + seed % 10, SampleCosts::either);
    const auto all = all_partitions(chain.problem, chain.blocks);
    const PartitionResult found = branch_and_bound(chain.problem, chain.blocks, 1);
    ASSERT_EQ(found.best.empty(), all.empty());
    if (all.empty()) continue;
    double least = std::numeric_limits<double>::infinity();
    for (const Partition& partition : all) least = std::min(least, partition.step);
    EXPECT_NEAR(found.best.front().step, least, kTolerance * least);
    EXPECT_LE(partition_lower_bound(chain.problem, chain.blocks), least * (1 + kTolerance));
  }
}

TEST(Partition, LocalSearchComesCloseToTheOptimum) {
  double worst = 1;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const SampleChain chain = uneven_chain(seed, 12, SampleCosts::either);
    const PartitionResult exact = branch_and_bound(chain.problem, chain.blocks, 1);
    const PartitionResult found = local_search(chain.problem, chain.blocks, 1);
    if (exact.best.empty()) {
      EXPECT_TRUE(found.best.empty());
      continue;
    }
    ASSERT_FALSE(found.best.empty());
    worst = std::max(worst, found.best.front().step / exact.best.front().step);
    EXPECT_GE(found.gap, 0);
  }
  EXPECT_LE(worst, 1.10);
}

TEST(Partition, NothingIsFoundWhenABlockExceedsTheDevice) {
  EXPECT_TRUE(search_partition(flat_problem(2, 2, 4, 1), six_layers(), 3).best.empty());
}

}  // namespace
}  // namespace ferry
