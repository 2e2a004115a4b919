#include "planner/cuts/partition_bounds.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "planner/cuts/sample_chains.h"

namespace ferry {
namespace {

constexpr double kTolerance = 1e-9;

// The least step into each stage count; infinity where nothing fits.
std::vector<double> optima(const SampleChain& chain) {
  std::vector<double> least(chain.blocks.size() + 1, std::numeric_limits<double>::infinity());
  for (const Partition& partition : all_partitions(chain.problem, chain.blocks)) {
    double& best = least[partition.ends.size()];
    best = std::min(best, partition.step);
  }
  return least;
}

TEST(PartitionBounds, NoPartitionIsFasterThanTheBoundOfItsStageCount) {
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SampleChain chain = seed % 2 == 0 ? uneven_chain(seed, 2 + seed % 7, SampleCosts::either)
                                      : repeated_chain(seed, 2 + seed % 7);
    if (seed % 3 == 0) chain.problem.bandwidth /= 8;
    const std::vector<double> least = optima(chain);
    double best = std::numeric_limits<double>::infinity();
    for (std::size_t stages = 1; stages < least.size(); ++stages) {
      best = std::min(best, least[stages]);
      if (least[stages] == std::numeric_limits<double>::infinity()) continue;
      ASSERT_LE(stage_count_lower_bound(chain.problem, chain.blocks, static_cast<int>(stages)),
                least[stages] * (1 + kTolerance))
          << stages << " stages";
    }
    ASSERT_LE(partition_lower_bound(chain.problem, chain.blocks), best * (1 + kTolerance));
  }
}

// Where one resource decides, the bound is the optimum.
TEST(PartitionBounds, TheBoundOfEqualStagesThatComputeOrTransferIsExact) {
  for (const double bandwidth : {1e9, 0.01}) {
    BlockCosts block;
    block.forward_time = 1;
    block.backward_time = 2;
    block.forward_upload = block.backward_upload = block.forward_memory = block.backward_memory = 1;
    const std::vector<BlockCosts> blocks(12, block);
    const EvaluatorProblem problem = flat_problem(4, 4, 2, bandwidth);
    EXPECT_NEAR(stage_count_lower_bound(problem, blocks, 12), evaluate_stages(problem, blocks).step,
                1e-6);
  }
}

TEST(PartitionBounds, NothingFitsGivesZero) {
  EXPECT_EQ(partition_lower_bound(flat_problem(2, 2, 4, 1), six_layers()), 0);
}

}  // namespace
}  // namespace ferry
