#include "papers/roundpipe/roundpipe_partition.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>

namespace ferry {
namespace {

std::vector<RoundPipeLayer> layers_with_head(int layers, RoundPipeLayer layer,
                                             RoundPipeLayer head) {
  std::vector<RoundPipeLayer> result(static_cast<std::size_t>(layers), layer);
  result.push_back(head);
  return result;
}

std::string text(const RoundPipePartition& partition, Direction direction) {
  std::string result;
  for (const RoundPipeStage& stage : partition.stages) {
    if (stage.direction != direction) continue;
    if (!result.empty()) result += " ";
    result += std::to_string(stage.first);
    if (stage.end - 1 == stage.first) continue;
    result += '-';
    result += std::to_string(stage.end - 1);
  }
  return result;
}

TEST(RoundPipePartition, TwelveLayersAndAHeadLikeThem) {
  const auto found = roundpipe_partitions({.devices = 4, .micro_batches = 8},
                                          layers_with_head(12, {1, 3}, {1, 3}));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].t_max, 3);
  EXPECT_EQ(text(found[0], Direction::forward), "0-2 3-5 6-8 9-11");
  EXPECT_EQ(text(found[0], Direction::fused), "12");
  EXPECT_EQ(text(found[0], Direction::backward), "11 10 9 8 7 6 5 4 3 2 1 0");
  EXPECT_EQ(found[0].stages.size(), 17U);
  EXPECT_EQ(found[0].cost, 444);
}

TEST(RoundPipePartition, TwelveLayersAndAHeadOfTwo) {
  const auto found = roundpipe_partitions({.devices = 4, .micro_batches = 8},
                                          layers_with_head(12, {1, 3}, {2, 6}));
  EXPECT_EQ(found[0].t_max, 6);
  EXPECT_EQ(text(found[0], Direction::forward), "0-5 6-11");
  EXPECT_EQ(text(found[0], Direction::fused), "12");
  EXPECT_EQ(text(found[0], Direction::backward), "10-11 8-9 6-7 4-5 2-3 0-1");
  EXPECT_EQ(found[0].stages.size(), 9U);
  EXPECT_EQ(found[0].cost, 504);
}

TEST(RoundPipePartition, AMemoryLimitCutsForwardStages) {
  const auto found = roundpipe_partitions({.devices = 4, .micro_batches = 8, .memory = 4},
                                          layers_with_head(12, {1, 3, 1, 2}, {2, 6, 2, 4}));
  EXPECT_EQ(found[0].t_max, 6);
  EXPECT_EQ(text(found[0], Direction::forward), "0-3 4-7 8-11");
  EXPECT_EQ(text(found[0], Direction::fused), "12");
  EXPECT_EQ(text(found[0], Direction::backward), "10-11 8-9 6-7 4-5 2-3 0-1");
  EXPECT_EQ(found[0].stages.size(), 10U);
  EXPECT_EQ(found[0].cost, 552);
}

TEST(RoundPipePartition, ALayerThatDoesNotFitHasNoPartition) {
  EXPECT_TRUE(roundpipe_partitions({.devices = 2, .micro_batches = 2, .memory = 3},
                                   layers_with_head(3, {1, 3, 1, 2}, {2, 6, 2, 4}))
                  .empty());
}

// S t_max of the best of all ways to cut, for a few layers: `cut(first, end)` says what a stage of
// them takes, or a negative number when it may not be.
int fewest_stages(int first, int end, const std::function<bool(int, int)>& fits) {
  if (first == end) return 0;
  int fewest = end - first + 1;
  for (int cut = first + 1; cut <= end; ++cut) {
    if (fits(first, cut)) fewest = std::min(fewest, 1 + fewest_stages(cut, end, fits));
  }
  return fewest;
}

TEST(RoundPipePartition, GreedyPackingHasTheFewestStages) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<RoundPipeLayer> layers;
    const int count = 1 + static_cast<int>(random() % 7);
    for (int l = 0; l < count; ++l) {
      const double time = 1 + static_cast<double>(random() % 5);
      const double bytes = 1 + static_cast<double>(random() % 4);
      layers.push_back({time, 3 * time, bytes, 2 * bytes});
    }
    const auto found =
        roundpipe_partitions({.devices = 2, .micro_batches = 4, .memory = 14}, layers, 5);
    ASSERT_FALSE(found.empty());
    for (const RoundPipePartition& partition : found) {
      const auto fits = [&](bool backward) {
        return [&, backward](int first, int end) {
          double time = 0;
          double bytes = 0;
          for (int l = first; l < end; ++l) {
            const RoundPipeLayer& layer = layers[static_cast<std::size_t>(l)];
            time += backward ? layer.backward : layer.forward;
            bytes += backward ? layer.backward_bytes : layer.forward_bytes;
          }
          return time <= partition.t_max && bytes <= 14;
        };
      };
      // The fused stage is as full as possible; the others are the fewest over the rest.
      int fused = 0;
      while (partition.stages[static_cast<std::size_t>(fused)].direction != Direction::fused)
        ++fused;
      const int rest = partition.stages[static_cast<std::size_t>(fused)].first;
      EXPECT_TRUE(rest == 0 || !fits(true)(rest - 1, count));
      EXPECT_EQ(fused, fewest_stages(0, rest, fits(false)));
      EXPECT_EQ(static_cast<int>(partition.stages.size()) - fused - 1,
                fewest_stages(0, rest, fits(true)));
    }
  }
}

}  // namespace
}  // namespace ferry
