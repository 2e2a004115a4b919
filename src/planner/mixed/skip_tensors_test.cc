#include "planner/mixed/skip_tensors.h"

#include <gtest/gtest.h>

#include "planner/mixed/mixed_load.h"
#include "planner/mixed/sample_graphs.h"

namespace ferry {
namespace {

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

// Once per step and replica, where FTPipe pays with every micro-batch.
TEST(SkipTensors, ReplicasCostOncePerStepWhatATravellingWeightCostsPerMicroBatch) {
  const TiedWeight embedding{0, {24}, 131'481'600_B, 131'481'600_B};
  EXPECT_EQ(replica_step_bytes(embedding, 1), 0_B);
  EXPECT_EQ(replica_step_bytes(embedding, 2), 2 * 131'481'600_B);
  EXPECT_EQ(travelling_step_bytes(embedding, 2, 5), 5 * replica_step_bytes(embedding, 2));
}

}  // namespace
}  // namespace ferry
