#include "simdev/memory.h"

#include <gtest/gtest.h>

#include <random>

namespace ferry {
namespace {

std::vector<MemoryBlock> release_all(std::vector<MemoryBlock> blocks) {
  for (const MemoryBlock& block : blocks) DeviceMemory::release(block);
  return blocks;
}

TEST(DeviceMemory, AnAllocationBeyondTheCapIsRefusedAndTakesNothing) {
  DeviceMemory memory(1_MiB);
  const auto first = memory.allocate(768_KiB, 0);
  ASSERT_TRUE(first.fits);
  EXPECT_FALSE(memory.allocate(512_KiB, 0).fits);
  EXPECT_EQ(memory.in_use(), 768_KiB);
  const auto rest = memory.allocate(256_KiB, 0);
  EXPECT_TRUE(rest.fits) << "exactly the cap is allowed";
  release_all({rest.block});
  EXPECT_EQ(memory.peak(), 1_MiB);
  release_all({first.block});
}

TEST(DeviceMemory, SizesAreRoundedUpToTheAlignment) {
  DeviceMemory memory(1_MiB);
  const auto tiny = memory.allocate(0_B, 0);
  EXPECT_EQ(memory.in_use(), DeviceMemory::kAlignment);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tiny.block.data) % 512, 0u);
  release_all(memory.give_back(tiny.block));
  EXPECT_EQ(memory.in_use(), 0_B);
}

TEST(DeviceMemory, AFreedBlockIsReusedAtOnceByItsOwnStreamOnly) {
  DeviceMemory memory(1_MiB);
  const auto first = memory.allocate(64_KiB, 7);
  release_all(memory.give_back(first.block));
  const auto other = memory.allocate(64_KiB, 8);
  EXPECT_NE(other.block.data, first.block.data);
  const auto same = memory.allocate(60_KiB, 7);
  EXPECT_EQ(same.block.data, first.block.data);
  EXPECT_FALSE(same.block.fresh);
  EXPECT_EQ(same.block.size, 60_KiB);
  release_all({other.block, same.block});
}

TEST(DeviceMemory, ABlockIsNotSpentOnAMuchSmallerSize) {
  DeviceMemory memory(1_MiB);
  const auto big = memory.allocate(512_KiB, 0);
  release_all(memory.give_back(big.block));
  const auto small = memory.allocate(1_KiB, 0);
  EXPECT_NE(small.block.data, big.block.data);
  release_all({small.block});
}

// Sizes differ from one use to the next, as with sequences of many lengths: what waits for reuse
// must not pile up.
TEST(DeviceMemory, WhatIsLentAndWhatWaitsEachStayWithinTheCap) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    DeviceMemory memory(1_MiB);
    std::vector<MemoryBlock> lent;
    for (int i = 0; i < 2000; ++i) {
      if (random() % 2 == 0 || lent.empty()) {
        auto result =
            memory.allocate({static_cast<std::int64_t>(random() % 200'000)}, random() % 3);
        release_all(result.surplus);
        if (result.fits) lent.push_back(result.block);
      } else {
        std::swap(lent[random() % lent.size()], lent.back());
        release_all(memory.give_back(lent.back()));
        lent.pop_back();
      }
      ASSERT_LE(memory.in_use(), 1_MiB);
      ASSERT_LE(memory.unused(), 1_MiB);
    }
    release_all(lent);
  }
}

// A large device once held its cap in use and as much again for reuse, all of it DRAM.
TEST(DeviceMemory, WhatIsLentAndWhatWaitsTogetherExceedTheCapByLittle) {
  std::mt19937 random(1);
  DeviceMemory memory(1_GiB);
  std::vector<MemoryBlock> lent;
  for (int i = 0; i < 2000; ++i) {
    if (random() % 2 == 0 || lent.empty()) {
      auto result = memory.allocate({static_cast<std::int64_t>(random() % 200'000'000)}, 0);
      release_all(result.surplus);
      if (result.fits) lent.push_back(result.block);
    } else {
      std::swap(lent[random() % lent.size()], lent.back());
      release_all(memory.give_back(lent.back()));
      lent.pop_back();
    }
    ASSERT_LE(memory.in_use() + memory.unused(), 1_GiB + DeviceMemory::kMostBeyondCap);
  }
  release_all(lent);
}

TEST(DeviceMemory, TheOldestUnusedBlockGoesFirst) {
  DeviceMemory memory(4_KiB);
  const auto a = memory.allocate(2_KiB, 0), b = memory.allocate(2_KiB, 1);
  EXPECT_TRUE(memory.give_back(b.block).empty());
  EXPECT_TRUE(memory.give_back(a.block).empty());
  const auto c = memory.allocate(1_KiB, 2);
  const auto surplus = memory.give_back(c.block);
  ASSERT_EQ(surplus.size(), 1u);
  EXPECT_EQ(surplus[0].data, b.block.data);
  release_all(surplus);
}

TEST(DeviceMemory, UnusedBlocksCanBeTaken) {
  DeviceMemory memory(1_MiB);
  release_all(memory.give_back(memory.allocate(64_KiB, 0).block));
  EXPECT_EQ(memory.unused(), 64_KiB);
  EXPECT_EQ(release_all(memory.take_unused()).size(), 1u);
  EXPECT_EQ(memory.unused(), 0_B);
}

}  // namespace
}  // namespace ferry
