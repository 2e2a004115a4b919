#include "planner/write/shared_region.h"

#include <gtest/gtest.h>

#include <random>

namespace ferry {
namespace {

TEST(SharedRegion, SumsTakeThePlaceOfWhatBackwardHasRead) {
  // Visits 0 to 2 are forward, 3 to 5 backward: the last stage's first.
  std::vector<Stay> kept = {{0, 100_B, 0, 5}, {1, 100_B, 1, 4}, {2, 100_B, 2, 3}};
  std::vector<Stay> sums = {{0, 40_B, 5, 6}, {1, 40_B, 4, 6}, {2, 40_B, 3, 6}};
  EXPECT_EQ(share_region(kept, sums), 340_B);  // the first sum beside all that is kept
  EXPECT_EQ(kept[2].offset, 200_B);
  EXPECT_EQ(sums[0].id, 2);
  EXPECT_EQ(sums[0].offset, 300_B);
  EXPECT_EQ(sums[2].offset, 220_B);
}

// Where it costs nothing: what is used last lies where what follows from the start comes last.
TEST(SharedRegion, WhatIsUsedLongestLiesAtTheEnd) {
  std::vector<Stay> kept = {{0, 10_B, 0, 5}, {1, 10_B, 1, 4}, {2, 10_B, 2, 3}};
  std::vector<Stay> sums = {{2, 40_B, 6, 7}, {1, 40_B, 7, 9}, {0, 40_B, 8, 8}};
  EXPECT_EQ(share_region(kept, sums), 120_B);
  EXPECT_EQ(sums[0].id, 1);
  EXPECT_EQ(sums[0].offset, 80_B);
  EXPECT_EQ(sums[2].id, 2);
  EXPECT_EQ(sums[2].offset, 0_B);
}

TEST(SharedRegion, OneKindAloneTakesWhatItIs) {
  std::vector<Stay> kept = {{0, 100_B, 0, 5}, {1, 50_B, 1, 4}};
  std::vector<Stay> none;
  EXPECT_EQ(share_region(kept, none), 150_B);
  EXPECT_EQ(share_region(none, kept), 150_B);
  EXPECT_EQ(kept[1].offset, 0_B);
}

TEST(SharedRegion, NothingOverlapsAtTheSameTime) {
  std::mt19937 random(7);
  const auto stays = [&] {
    std::vector<Stay> made(random() % 6);
    for (Stay& stay : made) {
      stay.size = Bytes{static_cast<std::int64_t>(random() % 100)};
      stay.first = random() % 10;
      stay.last = stay.first + random() % 10;
    }
    return made;
  };
  for (int round = 0; round < 1000; ++round) {
    std::vector<Stay> all = stays();
    std::vector<Stay> others = stays();
    const Bytes region = share_region(all, others);
    all.insert(all.end(), others.begin(), others.end());
    for (std::size_t a = 0; a < all.size(); ++a) {
      EXPECT_GE(all[a].offset, 0_B);
      EXPECT_LE(all[a].offset + all[a].size, region);
      for (std::size_t b = 0; b < a; ++b) {
        if (all[a].last < all[b].first || all[b].last < all[a].first) continue;
        EXPECT_TRUE(all[a].offset + all[a].size <= all[b].offset ||
                    all[b].offset + all[b].size <= all[a].offset);
      }
    }
  }
}

}  // namespace
}  // namespace ferry
