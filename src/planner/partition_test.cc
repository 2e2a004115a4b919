#include "planner/partition.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace ferry {
namespace {

constexpr double kTolerance = 1e-9;

// Six layers of the table: weights, inner activations and times; 0.2 passes between layers.
std::vector<BlockCosts> six_layers() {
  std::vector<BlockCosts> layers;
  for (int i = 0; i < 6; ++i) {
    const double forward = i == 5 ? 2 : 1;
    const double weights = i == 5 ? 3 : 2;
    BlockCosts layer;
    layer.forward_time = forward;
    layer.backward_time = 3 * forward;
    layer.forward_upload = layer.backward_upload = weights;
    layer.forward_memory = weights + 0.5;
    layer.backward_memory = weights + 1.5;
    layer.activation = 0.2;
    layer.activation_gradient = i == 0 ? 0 : 0.2;
    layers.push_back(layer);
  }
  return layers;
}

EvaluatorProblem problem(int devices, int micro_batches, double memory, double bandwidth) {
  EvaluatorProblem result;
  result.devices = devices;
  result.micro_batches = micro_batches;
  result.memory = memory;
  result.bandwidth = bandwidth;
  return result;
}

// Every contiguous partition, by the bits of a number: bit b cuts after block b.
std::vector<Partition> all_partitions(const EvaluatorProblem& question,
                                      const std::vector<BlockCosts>& blocks) {
  std::vector<Partition> result;
  const int count = static_cast<int>(blocks.size());
  for (unsigned cuts = 0; cuts < (1U << (count - 1)); ++cuts) {
    Partition partition;
    for (int b = 0; b + 1 < count; ++b) {
      if ((cuts >> b) & 1U) partition.ends.push_back(b + 1);
    }
    partition.ends.push_back(count);
    const auto schedule = evaluate_stages(question, stages_of(blocks, partition.ends));
    if (!schedule.feasible) continue;
    partition.step = schedule.step;
    result.push_back(partition);
  }
  return result;
}

TEST(Partition, VectorOneOfThePartitionerIsReproduced) {
  const auto question = problem(2, 2, 12, 1);
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
  const auto question = problem(2, 4, 12, 1);
  const PartitionResult result = search_partition(question, six_layers(), 2);
  ASSERT_EQ(result.best.size(), 2U);
  EXPECT_EQ(result.best[0].ends, (std::vector<int>{1, 2, 3, 5, 6}));
  EXPECT_NEAR(result.best[0].step, 64.0, kTolerance);
  EXPECT_EQ(result.best[1].ends, (std::vector<int>{2, 5, 6}));
  EXPECT_NEAR(result.best[1].step, 64.8, kTolerance);
  const auto finest = evaluate_stages(question, six_layers());
  EXPECT_NEAR(finest.step, 68.4, kTolerance);
}

struct RandomChain {
  EvaluatorProblem question;
  std::vector<BlockCosts> blocks;
};

RandomChain random_chain(std::uint64_t seed, std::size_t blocks) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> any(0.1, 4);
  RandomChain result;
  for (std::size_t b = 0; b < blocks; ++b) {
    BlockCosts block;
    block.forward_time = any(random);
    block.backward_time = 3 * any(random);
    block.forward_upload = block.backward_upload = any(random);
    block.forward_memory = block.forward_upload + any(random) / 4;
    block.backward_memory = block.forward_memory + any(random);
    block.activation = block.activation_gradient = any(random) / 8;
    block.gradient_download = any(random);
    block.update_time = any(random) / 4;
    result.blocks.push_back(block);
  }
  result.question = problem(1 + static_cast<int>(random() % 4), 1 + static_cast<int>(random() % 4),
                            6 + 4 * any(random), any(random));
  if (random() % 2 == 0) {
    result.question.switches = {true, true, true, random() % 2 == 0, any(random) / 16};
  }
  return result;
}

TEST(Partition, BranchAndBoundAgreesWithBruteForce) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomChain chain = random_chain(seed, 3 + seed % 10);
    const auto all = all_partitions(chain.question, chain.blocks);
    const PartitionResult found = branch_and_bound(chain.question, chain.blocks, 1);
    ASSERT_EQ(found.best.empty(), all.empty());
    if (all.empty()) continue;
    double least = std::numeric_limits<double>::infinity();
    for (const Partition& partition : all) least = std::min(least, partition.step);
    EXPECT_NEAR(found.best.front().step, least, kTolerance * least);
    EXPECT_LE(partition_lower_bound(chain.question, chain.blocks), least * (1 + kTolerance));
  }
}

TEST(Partition, LocalSearchComesCloseToTheOptimum) {
  double worst = 1;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomChain chain = random_chain(seed, 12);
    const PartitionResult exact = branch_and_bound(chain.question, chain.blocks, 1);
    const PartitionResult found = local_search(chain.question, chain.blocks, 1);
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
  EXPECT_TRUE(search_partition(problem(2, 2, 4, 1), six_layers(), 3).best.empty());
}

}  // namespace
}  // namespace ferry
