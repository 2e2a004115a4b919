#include "planner/mixed/skip_tensors.h"

#include <gtest/gtest.h>

#include "planner/mixed/mixed_load.h"
#include "planner/mixed/sample_graphs.h"
#include "planner/mixed/t5_fixture.h"

namespace ferry {
namespace {

// The cyclic Mixed map of T5: encoder stages 0..7 and decoder stages 8..15 of three layers each.
std::vector<int> cyclic_map() {
  std::vector<int> gpu_of;
  for (int b = 0; b < 48; ++b) gpu_of.push_back(b % 24 / 3);
  return gpu_of;
}

// FTPipe page, section 7.2: 24 / 8 / 8 / 7.
TEST(SkipTensors, EncoderOutputIsSentOncePerDestinationGpu) {
  const BlockGraph graph = t5_fixture(8, 1000_B);
  const std::vector<MixedStage> stages = StageBuilder(graph).build({cyclic_map(), cyclic_map()});
  ASSERT_EQ(stages.size(), 16U);
  const FanOut sent = fan_out(graph, 23, stages);
  EXPECT_EQ(sent.fine_edges, 24);
  EXPECT_EQ(sent.direct, 8);
  EXPECT_EQ(sent.relay, 8);
  EXPECT_EQ(sent.destination_gpus, 7);
}

TEST(SkipTensors, StagingCrossesLinksOncePerDestinationAndOnce) {
  for (const int k : {1, 2, 7}) {
    EXPECT_EQ(link_crossings(SkipRoute::direct, k, true), k);
    EXPECT_EQ(link_crossings(SkipRoute::relay, k, true), k);
    EXPECT_EQ(link_crossings(SkipRoute::direct, k, false), 2 * k);
    EXPECT_EQ(link_crossings(SkipRoute::relay, k, false), 2 * k);
    EXPECT_EQ(link_crossings(SkipRoute::staged, k, true), k + 1);
    EXPECT_EQ(link_crossings(SkipRoute::staged, k, false), k + 1);
  }
  EXPECT_EQ(link_crossings(SkipRoute::staged, 0, false), 0);
}

// The load model counts what the table counts: the encoder output alone, 7 + 1 crossings.
TEST(SkipTensors, LoadOfTheEncoderOutputIsEightCrossings) {
  BlockGraph graph = t5_fixture(8, 1000_B);
  graph.tensors = {graph.tensors[23]};
  graph.tensors[0].gradient = 0_B;
  const MixedMachine machine = equal_gpus(8, 1_GiB);
  const LoadModel model(graph, machine, single_items(graph), {}, {});
  EXPECT_EQ(load_of(model, cyclic_map()).step_bytes(), 8 * 1000_B);
}

// Section 7.3: 134.2 MB at 12 GB/s are 11.2 ms, the gather at 550 GB/s takes 0.25 ms; the hidden
// state cannot be made again.
TEST(SkipTensors, PositionBiasIsMadeAgainAndHiddenStatesAreSent) {
  MixedMachine machine = equal_gpus(8, 11_GiB);
  for (MixedGpu& gpu : machine.gpus) gpu.in_rate = gpu.out_rate = 12e9;
  BlockGraph graph = t5_fixture(8, Bytes{4LL * 512 * 1024 * 4});
  GraphTensor bias =
      tensor_of(0, {}, Bytes{4LL * 32 * 512 * 512 * 4}, Bytes{4LL * 32 * 512 * 512 * 4});
  for (int b = 1; b < 24; ++b) bias.consumers.push_back(b);
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
  const Bytes hidden = load_of(made, cyclic_map()).step_bytes() - 7 * 2 * 4_KiB;
  EXPECT_EQ(load_of(sent, cyclic_map()).step_bytes() - hidden, (7 + 1) * 2 * bias.forward);

  // Seven other encoder stages make it again, one on each of GPUs 1 to 7.
  const std::vector<MixedStage> stages = StageBuilder(graph).build({cyclic_map(), cyclic_map()});
  const std::vector<double> seconds = recompute_seconds(graph, flags, stages, 8);
  EXPECT_EQ(seconds[0], 0);
  for (int g = 1; g < 8; ++g) {
    EXPECT_EQ(seconds[static_cast<std::size_t>(g)], bias.recompute_seconds);
  }
}

// Section 8: once per step and replica, where FTPipe pays with every micro-batch.
TEST(SkipTensors, ReplicasCostOncePerStepWhatATravellingWeightCostsPerMicroBatch) {
  const TiedWeight embedding{0, {24}, 131'481'600_B, 131'481'600_B};
  EXPECT_EQ(replica_step_bytes(embedding, 1), 0_B);
  EXPECT_EQ(replica_step_bytes(embedding, 2), 2 * 131'481'600_B);
  EXPECT_EQ(travelling_step_bytes(embedding, 2, 5), 5 * replica_step_bytes(embedding, 2));
}

}  // namespace
}  // namespace ferry
