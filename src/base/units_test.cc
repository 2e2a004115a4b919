#include "base/units.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ferry {
namespace {

TEST(Units, ASizeIsANumberWithAUnit) {
  EXPECT_EQ(parse_bytes("64 MiB"), 64_MiB);
  EXPECT_EQ(parse_bytes("64MiB"), 64_MiB);
  EXPECT_EQ(parse_bytes("1.5 KiB"), 1536_B);
  EXPECT_EQ(parse_bytes("2 GB").count, 2'000'000'000);
  EXPECT_EQ(parse_bytes("0 B"), 0_B);
}

TEST(Units, ASizeWithOneLetterIsInPowersOf1024) {
  for (const char* text : {"8G", "8g", "8 G", "8192M", "8192 m", "8388608K"}) {
    EXPECT_EQ(parse_bytes(text), 8_GiB) << text;
  }
  EXPECT_EQ(parse_bytes("2T"), 2048_GiB);
  EXPECT_EQ(parse_bytes("8GB").count, 8'000'000'000);
}

TEST(Units, ASizeWithoutUnitOrWithAnUnknownOneIsRefused) {
  for (const char* text :
       {"64", "", "MiB", "64 mib", "-1 MiB", "nan B", "1e30 GiB", "64 MiB x", "064 MiB", "00 B"}) {
    EXPECT_THROW(parse_bytes(text), UserError) << text;
  }
}

TEST(Units, SizesAndTimesArePrintedWithAFittingUnit) {
  EXPECT_EQ(to_string(512_B), "512 B");
  EXPECT_EQ(to_string(1536_B), "1.5 KiB");
  EXPECT_EQ(to_string(64_MiB), "64.0 MiB");
  EXPECT_EQ(to_string(Micros{42}), "42 us");
  EXPECT_EQ(to_string(Micros{3100}), "3.10 ms");
  EXPECT_EQ(to_string(Micros{1.25e6}), "1.25 s");
}

TEST(Units, RoundUpReachesTheNextMultiple) {
  EXPECT_EQ(round_up(1_B, 512_B), 512_B);
  EXPECT_EQ(round_up(512_B, 512_B), 512_B);
  EXPECT_EQ(round_up(0_B, 512_B), 0_B);
}

}  // namespace
}  // namespace ferry
