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

}  // namespace
}  // namespace ferry
