#include "planner/write/staging.h"

#include <gtest/gtest.h>

#include <array>

namespace ferry {
namespace {

TEST(StagingRegion, OfEqualValuesTheOneUsedLongestAgoMakesRoom) {
  StagingRegion region(100_B, 30_B);
  EXPECT_EQ(region.take(1, 10_B), 100_B);
  EXPECT_EQ(region.take(2, 10_B), 110_B);
  EXPECT_EQ(region.take(3, 10_B), 120_B);
  EXPECT_EQ(region.find(1), 100_B);  // now value 2 is the oldest
  EXPECT_EQ(region.take(4, 10_B), 110_B);
  EXPECT_FALSE(region.find(2));
}

// A large and a small value in turn: two neighbours are there at once, in no more than they take.
TEST(StagingRegion, UnequalNeighboursLieSideBySide) {
  const std::array sizes = {16_B, 8_B, 16_B, 8_B};
  StagingRegion region({}, room_for_neighbours(sizes, 2));
  int value = 0;
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(region.take(++value, 16_B), 0_B);
    EXPECT_EQ(region.take(++value, 8_B), 16_B);
    EXPECT_TRUE(region.find(value - 1));
  }
}

TEST(StagingRegion, WhatLostBytesIsNoLongerThere) {
  StagingRegion region({}, 16_B);
  region.take(1, 16_B);
  EXPECT_EQ(region.take(2, 4_B), 0_B);
  EXPECT_FALSE(region.find(1));
  EXPECT_EQ(region.take(3, 8_B), 4_B) << "where value 2, which is younger, is not";
  EXPECT_EQ(region.find(2), 0_B);
}

TEST(StagingRegion, NeighboursAreThoseThatPass) {
  const std::array sizes = {5_B, 0_B, 7_B, 3_B, 0_B, 6_B};
  EXPECT_EQ(room_for_neighbours(sizes, 1), 7_B);
  EXPECT_EQ(room_for_neighbours(sizes, 2), 12_B);
  EXPECT_EQ(room_for_neighbours(sizes, 9), 21_B);
  EXPECT_EQ(room_for_neighbours({}, 2), 0_B);
}

}  // namespace
}  // namespace ferry
