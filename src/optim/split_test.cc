#include "optim/split.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/bf16.h"

namespace ferry {
namespace {

struct Tally {
  std::uint64_t not_inverted = 0;
  std::uint64_t unlike_nearest_even = 0;  // among patterns that are not NaN
  std::uint64_t nan_lost = 0;             // NaN, but hi is not
};

// The usual bf16 cast of a pattern that is not NaN: to nearest, ties to even.
std::uint16_t nearest_even(std::uint32_t bits) {
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

// All patterns with the given upper half; the loop is short enough for 32-bit counts.
Tally tally_upper_half(std::uint32_t upper) {
  std::uint32_t not_inverted = 0, unlike = 0, lost = 0;
#pragma omp simd reduction(+ : not_inverted, unlike, lost)
  for (std::uint32_t lower = 0; lower < 0x10000U; ++lower) {
    const std::uint32_t bits = upper << 16 | lower;
    const std::uint16_t hi = split_hi(bits);
    const std::uint32_t nan = (bits & 0x7fffffffU) > 0x7f800000U ? 1 : 0;
    const std::uint32_t hi_nan = (hi & 0x7fffU) > 0x7f80U ? 1 : 0;
    not_inverted += join(hi, split_lo(bits)) != bits ? 1 : 0;
    unlike += (1 - nan) & (hi != nearest_even(bits) ? 1U : 0U);
    lost += nan & (1 - hi_nan);
  }
  return {not_inverted, unlike, lost};
}

TEST(Split, AllPatternsInvertAndTheRoundingIsTheDocumentedOne) {
  constexpr std::uint32_t kThreads = 2;
  std::vector<Tally> tallies(kThreads);
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t id = 0; id < kThreads; ++id) {
      threads.emplace_back([&tallies, id] {
        Tally sum;
        for (std::uint32_t upper = id; upper < 0x10000U; upper += kThreads) {
          const Tally one = tally_upper_half(upper);
          sum.not_inverted += one.not_inverted;
          sum.unlike_nearest_even += one.unlike_nearest_even;
          sum.nan_lost += one.nan_lost;
        }
        tallies[id] = sum;
      });
    }
  }
  EXPECT_EQ(tallies[0].not_inverted + tallies[1].not_inverted, 0U);
  EXPECT_EQ(tallies[0].unlike_nearest_even + tallies[1].unlike_nearest_even, 32640U);
  EXPECT_EQ(tallies[0].nan_lost + tallies[1].nan_lost, 131070U);
}

TEST(Split, HiIsTheNearestBf16AndTiesGoAwayFromZero) {
  EXPECT_EQ(split_hi(0x3f800000), 0x3f80);  // 1.0 stays 1.0
  EXPECT_EQ(split_hi(0x3f807fff), 0x3f80);
  EXPECT_EQ(split_hi(0x3f808000), 0x3f81);  // a tie; to even would give 3f80
  EXPECT_EQ(split_hi(0xbf808000), 0xbf81);
  EXPECT_EQ(split_hi(0x7f7fffff), 0x7f80);  // the largest finite value becomes infinite in bf16
  EXPECT_EQ(split_hi(0x80000000), 0x8000);  // the sign of zero stays
}

TEST(Split, LoReadAsSignedIsWhatHiLacks) {
  for (const std::uint32_t bits : {0x3f807fffU, 0x3f808000U, 0xbf80ffffU, 0x00000001U}) {
    const auto lack = static_cast<std::int16_t>(split_lo(bits));
    EXPECT_EQ((static_cast<std::uint32_t>(split_hi(bits)) << 16) + static_cast<std::uint32_t>(lack),
              bits);
  }
}

TEST(Split, Bf16ToFloatIsExact) {
  EXPECT_EQ(bf16_to_float(0x3fc0), 1.5F);
  EXPECT_EQ(bf16_to_float(0xc000), -2.0F);
  EXPECT_EQ(bf16_to_float(0x0001), 0x1p-133F);
}

}  // namespace
}  // namespace ferry
