#include "planner/costs/device_room.h"

#include <gtest/gtest.h>

#include "planner/sample_questions.h"

namespace ferry {
namespace {

ChainBlock block_of(Bytes weights, Bytes workspace) {
  ChainBlock block;
  block.weights = weights;
  block.backward_workspace = workspace;
  return block;
}

double room(int devices, const Chain& chain) {
  PlanQuestion question = sample_question({}, {.devices = devices}, 1);
  set_device_budgets(question, 100_KiB);
  return room_on_devices(question, chain) / 1024;
}

TEST(RoomOnDevices, IsBesideTheLargestWorkspaceOfWhatRunsThere) {
  Chain chain;
  chain.blocks.push_back(block_of(300_KiB, 10_KiB));
  chain.blocks.push_back(block_of(300_KiB, 30_KiB));
  EXPECT_EQ(room(1, chain), 70);            // one device runs all
  EXPECT_EQ(room(3, chain), 90 + 90 + 70);  // two run the first block, or blocks like it
}

TEST(RoomOnDevices, EndsWithWhatBlocksHold) {
  Chain chain;
  chain.blocks.push_back(block_of(20_KiB, 10_KiB));
  chain.blocks.push_back(block_of(15_KiB, 30_KiB));
  EXPECT_EQ(room(1, chain), 35);
  chain.blocks.back().weights = 300_KiB;
  EXPECT_EQ(room(2, chain), 70 + 70);  // two with large workspaces hold more than one and 20 KiB
  chain.blocks.front().weights = 75_KiB;
  EXPECT_EQ(room(2, chain), 75 + 70);
}

TEST(RoomOnDevices, CountsTheWorkspaceOfBlocksThatHoldNothing) {
  Chain chain;
  chain.blocks.push_back(block_of(300_KiB, 10_KiB));
  chain.blocks.push_back(block_of({}, 30_KiB));
  chain.blocks.back().trainable = false;
  EXPECT_EQ(room(1, chain), 70);
}

}  // namespace
}  // namespace ferry
