#include "planner/cuts/every_partition.h"

#include <gtest/gtest.h>

#include <string>

#include "planner/cuts/sample_chains.h"

namespace ferry {
namespace {

TEST(EveryPartition, TheCountIsThatOfAllCuts) {
  EXPECT_EQ(partition_count(1, 1), 1);
  EXPECT_EQ(partition_count(6, 1), 1);
  EXPECT_EQ(partition_count(6, 6), 1);
  EXPECT_EQ(partition_count(6, 3), 10);
  EXPECT_EQ(partition_count(24, 8), 245157);
}

TEST(EveryPartition, TheFastestIsThatOfBruteForce) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const SampleChain chain = uneven_chain(seed, 2 + seed % 8, SampleCosts::real);
    const auto layers = static_cast<int>(chain.blocks.size());
    const int stages = 1 + static_cast<int>(seed) % layers;
    const Partition* best = nullptr;
    const std::vector<Partition> all = all_partitions(chain.problem, chain.blocks);
    for (const Partition& each : all) {
      if (static_cast<int>(each.ends.size()) != stages) continue;
      if (best == nullptr || each.step < best->step * (1 - 1e-12)) best = &each;
    }
    const auto found = fastest_partition(chain.problem, chain.blocks, stages);
    ASSERT_EQ(found.has_value(), best != nullptr);
    if (best == nullptr) continue;
    EXPECT_NEAR(found->step, best->step, 1e-9 * best->step);
  }
}

}  // namespace
}  // namespace ferry
