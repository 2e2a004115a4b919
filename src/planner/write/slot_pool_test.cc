#include "planner/write/slot_pool.h"

#include <gtest/gtest.h>

namespace ferry {
namespace {

TEST(SlotPool, GrowsToTheMostSlotsHeldAtOnceAndNoFurther) {
  SlotPool pool(100_B, 10_B, 0);
  for (int round = 0; round < 5; ++round) {
    const Bytes a = pool.take(), b = pool.take();
    pool.give_back(a);
    const Bytes c = pool.take();
    pool.give_back(b);
    pool.give_back(c);
  }
  EXPECT_EQ(pool.end(), 120_B);
}

TEST(SlotPool, ASlotRestsUntilAsManyOthersAsAreSpareWereGivenBack) {
  SlotPool pool(0_B, 10_B, 2);
  std::vector<Bytes> taken;
  for (int i = 0; i < 7; ++i) {
    taken.push_back(pool.take());
    pool.give_back(taken.back());
  }
  EXPECT_EQ(taken, (std::vector<Bytes>{0_B, 10_B, 20_B, 0_B, 10_B, 20_B, 0_B}));
  EXPECT_EQ(pool.end(), 30_B);
}

}  // namespace
}  // namespace ferry
