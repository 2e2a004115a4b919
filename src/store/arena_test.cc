#include "store/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"

namespace ferry {
namespace {

TEST(Arena, LeaseBeyondBudgetIsRefused) {
  Arena arena(8_MiB);
  const auto first = arena.lease(6_MiB);
  ASSERT_TRUE(first.has_value());

  EXPECT_FALSE(arena.lease(4_MiB).has_value());
  EXPECT_FALSE(arena.lease({INT64_MAX}).has_value());
  EXPECT_EQ(arena.in_use(), 6_MiB);  // the refusals took nothing
  EXPECT_EQ(arena.peak(), 6_MiB);
}

// Leases come back in another order than they were taken: prefetched layers are freed
// front to back on the forward pass and back to front on the backward pass. The budget
// must be whole again either way.
TEST(Arena, ReturnedRegionsMergeInAnyOrder) {
  std::vector<int> order = {0, 1, 2};
  do {
    Arena arena(12_MiB);
    std::vector<std::optional<Lease>> leases;
    for (int i = 0; i < 3; ++i) leases.push_back(arena.lease(4_MiB));
    for (const int i : order) leases[static_cast<std::size_t>(i)].reset();

    EXPECT_EQ(arena.in_use(), 0_B);
    EXPECT_TRUE(arena.lease(12_MiB).has_value());
    EXPECT_EQ(arena.peak(), 12_MiB);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Arena, ALeaseIsAsLongAsAskedForAndTakesWholeAlignedPages) {
  Arena arena(12_KiB);
  const auto a = arena.lease(1_B), b = arena.lease(4097_B);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->bytes().size(), 1U);
  EXPECT_EQ(b->bytes().size(), 4097U);
  for (const auto* lease : {&*a, &*b}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(lease->bytes().data()) % 4096, 0U);
  }
  EXPECT_EQ(arena.in_use(), 12_KiB);
  EXPECT_FALSE(arena.lease(1_B).has_value());
}

TEST(Arena, ABudgetIsRoundedDownToTheAlignment) {
  EXPECT_EQ(Arena(4095_B).budget(), 0_B);
  Arena arena(10000_B);
  EXPECT_EQ(arena.budget(), 8_KiB);
  EXPECT_FALSE(arena.lease(10000_B).has_value());
}

TEST(Arena, AMovedLeaseIsReturnedOnce) {
  Arena arena(8_KiB);
  auto a = arena.lease(4_KiB), b = arena.lease(4_KiB);
  *a = std::move(*b);  // returns what `a` held
  EXPECT_TRUE(b->bytes().empty());
  EXPECT_EQ(arena.in_use(), 4_KiB);
  const Lease last = std::move(*a);
  a.reset();
  b.reset();
  EXPECT_EQ(arena.in_use(), 4_KiB);
}

TEST(Arena, ABudgetThatTheMachineRefusesIsAResourceErrorNamingTheNeed) {
  try {
    const Arena arena(1024 * 1024_GiB);
    FAIL() << "a petabyte was granted";
  } catch (const ResourceError& error) {
    EXPECT_NE(std::string(error.what()).find("map 1024.00 TiB"), std::string::npos) << error.what();
  }
}

TEST(ArenaDeathTest, ALeaseThatOutlivesItsArenaIsCaught) {
  EXPECT_DEATH(
      {
        std::optional<Lease> lease;
        const Arena* arena = new Arena(4_KiB);
        lease = const_cast<Arena*>(arena)->lease(1_B);
        delete arena;
      },
      "outlived its arena");
}

TEST(Arena, LeasesOfSeveralThreadsNeverOverlap) {
  constexpr int kThreads = 4;
  Arena arena(1_MiB);
  std::vector<int> overwritten(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int id = 0; id < kThreads; ++id) {
      threads.emplace_back([&arena, &overwritten, id] {
        std::mt19937 random(static_cast<unsigned>(id));
        std::vector<Lease> held;
        const auto mark = static_cast<std::byte>(id + 1);
        for (int i = 0; i < 2000; ++i) {
          if (auto lease = arena.lease({static_cast<std::int64_t>(random() % 60000 + 1)})) {
            std::memset(lease->bytes().data(), id + 1, lease->bytes().size());
            held.push_back(std::move(*lease));
          }
          if (held.size() > 3 || (!held.empty() && random() % 3 == 0)) {
            const std::size_t victim = random() % held.size();
            for (const std::byte byte : held[victim].bytes()) {
              overwritten[static_cast<std::size_t>(id)] += byte != mark;
            }
            std::swap(held[victim], held.back());
            held.pop_back();
          }
        }
      });
    }
  }
  EXPECT_EQ(overwritten, std::vector<int>(kThreads));
  EXPECT_EQ(arena.in_use(), 0_B);
  EXPECT_LE(arena.peak(), arena.budget());
  EXPECT_TRUE(arena.lease(1_MiB).has_value());
}

}  // namespace
}  // namespace ferry
