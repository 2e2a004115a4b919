#include "store/stripes.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>

#include "base/drive_page.h"

namespace ferry {
namespace {

const std::vector<std::vector<double>> kShares = {{1},       {1, 1},      {6.5e9, 3.4e9},
                                                  {1, 2, 3}, {0.1, 1000}, {1, 1, 1e-9, 7}};

// By brute force over all pages: each lies on one page of one file, and files have no other pages.
TEST(Stripes, EveryByteOfTheSpaceIsOneByteOfOneFile) {
  for (const auto& shares : kShares) {
    for (const Bytes segment : {4_KiB, 12_KiB, 64_KiB}) {
      for (std::int64_t pages = 0; pages < 100; pages += 7) {
        const Stripes stripes(shares, kDrivePage * pages, segment);
        std::set<std::pair<std::size_t, Bytes>> found;
        for (std::int64_t page = 0; page < pages; ++page) {
          const auto segments = stripes.segments(kDrivePage * page, kDrivePage);
          ASSERT_EQ(segments.size(), 1u);
          EXPECT_EQ(segments[0].length, kDrivePage);
          EXPECT_LT(segments[0].offset, stripes.file_size(segments[0].part));
          EXPECT_TRUE(found.emplace(segments[0].part, segments[0].offset).second);
        }
        Bytes files;
        for (std::size_t part = 0; part < shares.size(); ++part) files += stripes.file_size(part);
        EXPECT_EQ(files, stripes.size());
      }
    }
  }
}

TEST(Stripes, ALongRunIsTheRunsOfItsPages) {
  for (const auto& shares : kShares) {
    const Stripes stripes(shares, 1_MiB, 16_KiB);
    for (std::int64_t begin = 0; begin < 256; begin += 5) {
      for (std::int64_t end = begin; end <= 256; end += 3) {
        std::int64_t page = begin;
        const Bytes length = kDrivePage * (end - begin);
        for (const auto& run : stripes.segments(kDrivePage * begin, length)) {
          for (Bytes at; at < run.length; at += kDrivePage, ++page) {
            const auto one = stripes.segments(kDrivePage * page, kDrivePage);
            ASSERT_EQ(one[0].part, run.part);
            ASSERT_EQ(one[0].offset, run.offset + at);
          }
        }
        ASSERT_EQ(page, end);
      }
    }
  }
}

TEST(Stripes, ARowIsSharedInProportionToTheRates) {
  const Stripes even(std::vector<double>{1, 1}, 8_MiB, 1_MiB);
  EXPECT_EQ(even.width(0), 1_MiB);
  EXPECT_EQ(even.width(1), 1_MiB);
  const Stripes uneven(std::vector<double>{3, 1}, 8_MiB, 1_MiB);
  EXPECT_EQ(uneven.width(0), 1536_KiB);
  EXPECT_EQ(uneven.width(1), 512_KiB);
  EXPECT_EQ(uneven.file_size(0), 6_MiB);
  EXPECT_EQ(uneven.file_size(1), 2_MiB);
  const Stripes extreme(std::vector<double>{1, 1e9}, 8_MiB, 1_MiB);
  EXPECT_EQ(extreme.width(0), 4_KiB);  // every drive has a part
}

TEST(Stripes, OneDriveIsOneRun) {
  const Stripes stripes(std::vector<double>{1}, 8_MiB, 1_MiB);
  EXPECT_EQ(stripes.segments(4_KiB, 6_MiB).size(), 1u);
  EXPECT_TRUE(stripes.segments(8_MiB, 0_B).size() <= 1);
}

TEST(StripesDeathTest, WhatLeavesTheSpaceOrIsNotAlignedIsCaught) {
  const Stripes stripes(std::vector<double>{1, 2}, 1_MiB, 64_KiB);
  EXPECT_DEATH(stripes.segments(1_MiB, 4_KiB), "leaves a space of 1048576 B");
  EXPECT_DEATH(stripes.segments(4_KiB, {INT64_MAX}), "leaves a space");
  EXPECT_DEATH(stripes.segments({-4096}, 4_KiB), "leaves a space");
  EXPECT_DEATH(stripes.segments(512_B, 4_KiB), "not a multiple of 4096");
  EXPECT_DEATH(stripes.segments(4_KiB, 100_B), "not a multiple of 4096");
  EXPECT_DEATH(Stripes(std::vector<double>{1, 0}, 1_MiB, 64_KiB), "share is above 0");
  EXPECT_DEATH(Stripes(std::vector<double>{}, 1_MiB, 64_KiB), "needs a drive");
  EXPECT_DEATH(Stripes(std::vector<double>{1}, 100_B, 64_KiB), "multiple of 4096");
}

}  // namespace
}  // namespace ferry
