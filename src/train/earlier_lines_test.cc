#include "train/earlier_lines.h"

#include <gtest/gtest.h>

namespace ferry {
namespace {

/// Steps of which the last `clipped` had norms above 1.
EarlierLines lines_of(int steps, int clipped) {
  EarlierLines lines;
  for (int step = 1; step <= steps; ++step) {
    lines.learned.push_back({step, 2.0, step > steps - clipped ? 1.5 : 1.0});
  }
  return lines;
}

TEST(ClippedShare, IsThatOfTheLastHundredStepsInTwentieths) {
  EXPECT_EQ(clipped_share(lines_of(10, 0), 1.0), 0.0);
  EXPECT_EQ(clipped_share(lines_of(10, 10), 1.0), 1.0);
  EXPECT_EQ(clipped_share(lines_of(10, 10), 1.5), 0.0) << "a norm of the limit is not above it";
  EXPECT_EQ(clipped_share(lines_of(100, 33), 1.0), 0.35);
  EXPECT_EQ(clipped_share(lines_of(100, 32), 1.0), 0.3);
  EXPECT_EQ(clipped_share(lines_of(1000, 100), 1.0), 1.0);
}

TEST(ClippedShare, OfAFewStepsIsUnknown) {
  EXPECT_EQ(clipped_share(lines_of(9, 9), 1.0), std::nullopt);
  EXPECT_EQ(clipped_share({}, 1.0), std::nullopt);
}

}  // namespace
}  // namespace ferry
