#include "planner/strategies/memory_rungs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ferry {
namespace {

std::vector<std::int64_t> sizes(const std::vector<MemoryRung>& rungs) {
  std::vector<std::int64_t> result;
  for (const MemoryRung& rung : rungs) result.push_back(rung.memory.count);
  return result;
}

TEST(MemoryRungs, GoFromTheLeastByEqualPartsOfEachDoublingToTheFirstThatHoldsTheMost) {
  using Sizes = std::vector<std::int64_t>;
  EXPECT_EQ(sizes(memory_rungs(Bytes{10}, Bytes{33}, 4)),
            (Sizes{10, 12, 14, 16, 20, 24, 28, 32, 40}));
  EXPECT_EQ(sizes(memory_rungs(Bytes{16}, Bytes{32}, 8)),
            (Sizes{16, 18, 20, 22, 24, 26, 28, 30, 32}));
  EXPECT_EQ(sizes(memory_rungs(Bytes{31}, Bytes{33}, 2)), (Sizes{31, 32, 48}));
  EXPECT_EQ(sizes(memory_rungs(Bytes{3}, Bytes{6}, 8)), (Sizes{3, 4, 5, 6}));
  EXPECT_EQ(sizes(memory_rungs(Bytes{7}, Bytes{7}, 8)), Sizes{7});
}

TEST(MemoryRungs, LandingsAreTheFirstAndThreeTimesPowersOfTwo) {
  for (const int per_doubling : {2, 4, 8, 16}) {
    for (const MemoryRung& rung : memory_rungs(Bytes{100}, Bytes{3000}, per_doubling)) {
      const auto size = rung.memory.count;
      const bool lands =
          size == 100 || size == 192 || size == 384 || size == 768 || size == 1536 || size == 3072;
      EXPECT_EQ(rung.is_landing, lands) << size << " of " << per_doubling;
    }
  }
}

TEST(MemoryRungs, WithMoreMemoryTheSameComeFirst) {
  const auto longest = sizes(memory_rungs(Bytes{1000}, Bytes{100'000}, 8));
  for (std::int64_t most = 1000; most < 100'000; most += 777) {
    const auto some = sizes(memory_rungs(Bytes{1000}, Bytes{most}, 8));
    ASSERT_LE(some.size(), longest.size());
    EXPECT_TRUE(std::equal(some.begin(), some.end(), longest.begin())) << most;
    EXPECT_GE(some.back(), most);
    if (some.size() > 1) {
      EXPECT_LT(some[some.size() - 2], most);
    }
  }
}

}  // namespace
}  // namespace ferry
