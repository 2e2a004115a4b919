#include "planner/costs/capacity_bound.h"

#include <gtest/gtest.h>

#include "planner/sample_questions.h"

namespace ferry {
namespace {

// Ten blocks that compute and update in no time, beside a drive of a byte per second.
Chain ten_blocks() {
  Chain chain;
  for (int b = 0; b < 10; ++b) {
    ChainBlock block;
    block.weights = 1000_B;
    block.states = 2000_B;
    block.gradients = 1000_B;
    chain.blocks.push_back(block);
  }
  return chain;
}

double bound(Bytes device, Bytes host, Homes homes = Homes::anywhere) {
  PlanQuestion question = sample_question({}, {}, 1);
  set_device_budgets(question, device);
  question.host_budget = host;
  question.clips = false;
  question.machine.drives = {{.name = "ssd0", .capacity = 1_GiB}};
  question.machine.drives.front().read = question.machine.drives.front().write = {1};
  return capacity_bound(question, ten_blocks(), homes).seconds();
}

// 30,000 bytes of W and S. What is on the drive is read and written once a step.
TEST(CapacityBound, DramHasRoomForWhatAnUpdateNeedsBesideWhatRestsThere) {
  // That may be S alone, which pass in pieces: a sum takes 1,000.
  EXPECT_NEAR(bound(0_B, 12'000_B), 2 * (30'000 - (12'000 - 1'000)), 1);
  // All S on the drive were 20,000, so W are there as well: a W and its sum take 2,000.
  // And beside the head's sum there is no room for 26,000, of which 5,000 more than S and a W.
  EXPECT_NEAR(bound(0_B, 5'000_B), 2 * (30'000 - (5'000 - 2'000)) + 5'000, 1);
  EXPECT_NEAR(bound(0_B, 31'000_B), 0, 1);  // and the head's sum
}

TEST(CapacityBound, DevicesHaveRoomForWhatABackwardNeedsBesideWhatIsAtHome) {
  // 8,240 at home beside W and the sum of a block that passes, and 10,000 in DRAM.
  EXPECT_NEAR(bound(10'240_B, 11'000_B), 2 * (30'000 - (10'240 - 2'000) - (11'000 - 1'000)), 1);
  EXPECT_NEAR(bound(30'000_B, 3'000_B), 0, 1);
  EXPECT_NEAR(bound(10'240_B, 12'000_B, Homes::off_devices), 2 * (30'000 - (12'000 - 1'000)), 1);
}

}  // namespace
}  // namespace ferry
