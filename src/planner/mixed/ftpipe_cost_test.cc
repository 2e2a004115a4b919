#include "planner/mixed/ftpipe_cost.h"

#include <gtest/gtest.h>

namespace ferry::ftpipe {
namespace {

TEST(FtpipeCost, NodeWeightsFollowThePresets) {
  const Node node{2, 6};
  EXPECT_EQ(node_weight(node, 1), 8e4);
  EXPECT_EQ(node_weight(node, 0), 2e4);
  EXPECT_EQ(node_weight(node, -1), 6e4);
  EXPECT_EQ(gpipe_node_weight(node), 1e4 * (4 + 36) / 8);
  EXPECT_EQ(gpipe_node_weight({}), 0);
}

TEST(FtpipeCost, EdgeWeightIsMillisecondsTimesTheScale) {
  EXPECT_DOUBLE_EQ(edge_weight(24'000'000, kGpuBandwidth), 2e4);  // 2 ms at 12 GB/s
  EXPECT_EQ(edge_weight(1, kGpuBandwidth), 1e-3);
  EXPECT_DOUBLE_EQ(edge_weight(550'000'000, kLocalBandwidth), 1e4);
}

// Three stages on two GPUs; stage 0 and 2 share GPU 0 with 4 + 2 ms, GPU 1 has 1 ms.
TEST(FtpipeCost, TrafficBeyondTheGpusComputeIsPaid) {
  const Graph graph{{{1, 3}, {0.5, 0.5}, {1, 1}},
                    {{0, 1, 24'000'000, true}, {1, 2, 36'000'000, true}, {0, 2, 5'500'000, false}}};
  const Partition partition{{0, 1, 2}, {0, 1, 0}};
  EXPECT_EQ(gpu_compute(graph, partition, 2), (std::vector<double>{6e4, 1e4}));
  const std::vector<double> costs = stage_costs(graph, partition, 2);
  EXPECT_EQ(costs[0], 6e4);                      // 2 ms out behind 6 ms of compute
  EXPECT_EQ(costs[1], 1e4 + (3e4 - 1e4) + 1e4);  // 3 ms out, 2 ms of gradients, 1 ms to hide behind
  EXPECT_EQ(costs[2], 6e4);
}

// The fault that hyper-edges repair: 24 consumers count 24 times.
TEST(FtpipeCost, ATensorCountsOncePerConsumer) {
  Graph graph;
  graph.nodes.resize(25);
  for (int consumer = 1; consumer < 25; ++consumer) {
    graph.edges.push_back({0, consumer, 12'000'000, false});
  }
  Partition partition{std::vector<int>(25, 1), {0, 1}};
  partition.stage_of[0] = 0;
  EXPECT_DOUBLE_EQ(stage_costs(graph, partition, 2)[0], 24 * 1e4);
}

}  // namespace
}  // namespace ferry::ftpipe
