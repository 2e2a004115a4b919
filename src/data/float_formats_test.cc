#include "data/float_formats.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace ferry {
namespace {

TEST(FloatFormats, HalfPrecisionMeansWhatTheStandardSays) {
  EXPECT_EQ(f16_to_float(0x3C00), 1.0f);
  EXPECT_EQ(f16_to_float(0xC000), -2.0f);
  EXPECT_EQ(f16_to_float(0x7BFF), 65504.0f);
  EXPECT_EQ(f16_to_float(0x0400), 0x1p-14f);    // the smallest normal number
  EXPECT_EQ(f16_to_float(0x03FF), 0x3FFp-24f);  // the largest subnormal one
  EXPECT_EQ(f16_to_float(0x0001), 0x1p-24f);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(f16_to_float(0x8000)), 0x80000000u);
  EXPECT_EQ(f16_to_float(0xFC00), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(f16_to_float(0x7E01)));
}

TEST(FloatFormats, HalfPrecisionGrowsWithItsBits) {
  for (std::uint16_t bits = 1; bits <= 0x7C00; ++bits) {
    ASSERT_LT(f16_to_float(static_cast<std::uint16_t>(bits - 1)), f16_to_float(bits)) << bits;
  }
}

TEST(FloatFormats, Bfloat16IsTheUpperHalfOfAFloat) {
  EXPECT_EQ(bf16_to_float(0x3F80), 1.0f);
  EXPECT_EQ(bf16_to_float(0xC049), -3.140625f);
  EXPECT_EQ(bf16_to_float(0x0001), 0x1p-133f);
  EXPECT_TRUE(std::isnan(bf16_to_float(0x7FC0)));
}

/// Every finite value of a format, the point half way to the next one, and its neighbours.
void expect_nearest_even(float (*widen)(std::uint16_t), std::uint16_t (*narrow)(float),
                         std::uint16_t infinity) {
  for (std::uint16_t bits = 0; bits + 1 < infinity; ++bits) {
    const float low = widen(bits), high = widen(static_cast<std::uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;
    const auto even = static_cast<std::uint16_t>(bits + (bits & 1));
    ASSERT_EQ(narrow(low), bits);
    ASSERT_EQ(narrow(-low), bits | 0x8000) << bits;
    ASSERT_EQ(narrow(middle), even) << bits;
    ASSERT_EQ(narrow(std::nextafter(middle, low)), bits);
    ASSERT_EQ(narrow(std::nextafter(middle, high)), bits + 1);
  }
}

TEST(FloatFormats, NarrowingRoundsToNearestAndTiesToEven) {
  expect_nearest_even(f16_to_float, float_to_f16, 0x7C00);
  expect_nearest_even(bf16_to_float, float_to_bf16, 0x7F80);
}

TEST(FloatFormats, WhatIsBeyondAFormatBecomesInfinityAndNanStaysNan) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  EXPECT_EQ(float_to_f16(65519.99f), 0x7BFF);
  EXPECT_EQ(float_to_f16(65520.0f), 0x7C00);
  EXPECT_EQ(float_to_f16(-kLargest), 0xFC00);
  EXPECT_EQ(float_to_bf16(kLargest), 0x7F80);
  EXPECT_EQ(float_to_f16(std::numeric_limits<float>::denorm_min()), 0);
  for (const std::uint32_t nan : {0x7F800001u, 0x7FFFFFFFu, 0xFFC00000u}) {
    EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(std::bit_cast<float>(nan)))));
    EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::bit_cast<float>(nan)))));
  }
}

TEST(FloatFormats, TheFirstValueThatIsNotFiniteIsFoundWhereverItIs) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> values(37, -std::numeric_limits<float>::max());
  EXPECT_EQ(first_not_finite(values), std::nullopt);
  EXPECT_EQ(first_not_finite({}), std::nullopt);
  values.back() = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t at = values.size(); at-- > 0;) {
    values[at] = at % 2 == 0 ? -kInfinity : std::bit_cast<float>(0x7F800001u);
    EXPECT_EQ(first_not_finite(values), at);
  }
}

TEST(FloatFormats, TheFirstValueThatHasNoBf16IsFound) {
  const float least = std::bit_cast<float>(0x7F7F8000u);  // rounds up, to infinity
  const float most = std::bit_cast<float>(0x7F7F7FFFu);
  EXPECT_TRUE(std::isinf(bf16_to_float(float_to_bf16(least))));
  EXPECT_TRUE(std::isfinite(bf16_to_float(float_to_bf16(most))));
  const std::vector<float> values = {1, -most, -least, std::numeric_limits<float>::infinity()};
  EXPECT_EQ(first_beyond_bf16(values), 2U);
  EXPECT_EQ(first_beyond_bf16(std::span(values).first(2)), std::nullopt);
  EXPECT_EQ(first_beyond_bf16(std::span(values).last(1)), 0U);
}

}  // namespace
}  // namespace ferry
