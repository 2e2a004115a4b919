#include "planner/cuts/contiguous.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace ferry {
namespace {

double longest_stage(const std::vector<double>& times, const std::vector<int>& ends) {
  double longest = 0;
  int first = 0;
  for (const int end : ends) {
    double sum = 0;
    for (; first < end; ++first) sum += times[static_cast<std::size_t>(first)];
    longest = std::max(longest, sum);
  }
  return longest;
}

TEST(MinMaxCuts, EqualBlocksMakeStagesThatDifferByOne) {
  EXPECT_EQ(min_max_cuts(std::vector<double>(10, 1.0), 4), (std::vector<int>{2, 4, 7, 10}));
  EXPECT_EQ(min_max_cuts(std::vector<double>(6, 1.0), 3), (std::vector<int>{2, 4, 6}));
}

TEST(MinMaxCuts, NoCutHasAShorterLongestStage) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 100; ++round) {
    std::vector<double> times(1 + random() % 8);
    for (double& time : times) time = static_cast<double>(1 + random() % 9);
    const int count = static_cast<int>(times.size());
    const int stages = 1 + static_cast<int>(random() % times.size());
    const std::vector<int> ends = min_max_cuts(times, stages);
    ASSERT_EQ(static_cast<int>(ends.size()), stages);
    double least = 1e9;
    for (unsigned cuts = 0; cuts < 1U << (count - 1); ++cuts) {
      std::vector<int> other;
      for (int b = 1; b < count; ++b) {
        if (cuts >> (b - 1) & 1U) other.push_back(b);
      }
      other.push_back(count);
      if (static_cast<int>(other.size()) == stages) {
        least = std::min(least, longest_stage(times, other));
      }
    }
    EXPECT_EQ(longest_stage(times, ends), least);
  }
}

}  // namespace
}  // namespace ferry
