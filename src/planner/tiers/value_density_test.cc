#include "planner/tiers/value_density.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "planner/tiers/tiered_bounds.h"

namespace ferry {
namespace {

constexpr double kNever = INFINITY;

Bytes some(std::mt19937_64& random, int most) {
  return {static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most))};
}

TierQuestion random_question(std::uint64_t seed, int most_blocks) {
  std::mt19937_64 random(seed);
  TierQuestion question;
  question.read_rate = static_cast<double>(1 + random() % 10);
  question.write_rate = static_cast<double>(1 + random() % 10);
  question.forward_writes_free = random() % 3 == 0;
  const std::size_t count = 1 + random() % static_cast<std::uint64_t>(most_blocks);
  for (std::size_t b = 0; b < count; ++b) {
    BlockDemand block;
    block.hi = some(random, 20);
    block.states = 5 * block.hi;
    block.activation = some(random, 30);
    block.recompute = random() % 3 == 0 ? kNever : static_cast<double>(random() % 100) / 10;
    question.blocks.push_back(block);
  }
  if (random() % 2 == 0) question.device_spare = some(random, 100);
  question.host = some(random, 400);
  return question;
}

// What one held item saves per step, and its size.
struct Item {
  double saved;
  std::int64_t bytes;
};

std::vector<Item> items_of(const TierQuestion& question) {
  std::vector<Item> items;
  const double out = question.forward_writes_free ? 0 : 1 / question.write_rate;
  for (const BlockDemand& block : question.blocks) {
    const auto hi = static_cast<double>(block.hi.count);
    const auto states = static_cast<double>(block.states.count);
    const auto activation = static_cast<double>(block.activation.count);
    items.push_back({hi * (2 / question.read_rate + 1 / question.write_rate), block.hi.count});
    items.push_back(
        {states * (1 / question.read_rate + 1 / question.write_rate), block.states.count});
    items.push_back({std::min(activation * (1 / question.read_rate + out), block.recompute),
                     block.activation.count});
  }
  return items;
}

// The least seconds of all choices of whole items for one memory.
double brute_force(const TierQuestion& question) {
  const std::vector<Item> items = items_of(question);
  double best = kNever;
  for (std::size_t held = 0; held < std::size_t{1} << items.size(); ++held) {
    std::int64_t bytes = 0;
    double seconds = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if ((held >> i & 1) != 0) {
        bytes += items[i].bytes;
      } else if (items[i].bytes > 0) {
        seconds += items[i].saved;
      }
    }
    if (bytes <= question.host.count) best = std::min(best, seconds);
  }
  return best;
}

TEST(ValueDensity, Hi16ComesBeforeStatesAndStatesBeforeActivations) {
  TierQuestion question;
  question.read_rate = 6.5e9;
  question.write_rate = 3e9;
  question.blocks.assign(4,
                         {.hi = 2_MiB, .states = 10_MiB, .activation = 1_MiB, .recompute = kNever});
  question.host = 8_MiB + 20_MiB + 2_MiB;
  const TierPlacement placement = place_by_value(question);
  for (int b = 0; b < 4; ++b) {
    const BlockPlacement& block = placement.blocks[static_cast<std::size_t>(b)];
    EXPECT_EQ(block.hi, PlaceKind::host);
    EXPECT_EQ(block.states, b < 2 ? PlaceKind::host : PlaceKind::drive);
    EXPECT_EQ(block.activation, b < 2 ? PlaceKind::host : PlaceKind::drive);
  }
  EXPECT_EQ(placement.host_used, question.host);
  EXPECT_EQ(placement.drive_used, 22_MiB);
  EXPECT_EQ(placement.drive_read, 22_MiB);
  EXPECT_DOUBLE_EQ(placement.seconds, 22 * 1048576.0 * (1 / 6.5e9 + 1 / 3e9));
  EXPECT_NEAR(placement.seconds_bound, placement.seconds, 1e-12);  // whole items fill the host
}

TEST(ValueDensity, TheDeviceIsFilledBeforeTheHost) {
  TierQuestion question;
  question.read_rate = question.write_rate = 1e9;
  question.blocks.assign(2, {.hi = 2_MiB, .states = 10_MiB, .activation = {}, .recompute = 0});
  question.device_spare = 4_MiB;
  question.host = 10_MiB;
  const TierPlacement placement = place_by_value(question);
  EXPECT_EQ(placement.blocks[1].hi, PlaceKind::device);
  EXPECT_EQ(placement.blocks[0].states, PlaceKind::host);
  EXPECT_EQ(placement.blocks[1].states, PlaceKind::drive);
  EXPECT_EQ(placement.device_used, 4_MiB);
}

TEST(ValueDensity, CheapActivationsAreComputedAgain) {
  TierQuestion question;
  question.read_rate = question.write_rate = 1e6;
  question.blocks = {{.hi = {}, .states = {}, .activation = {1'000'000}, .recompute = 1.5},
                     {.hi = {}, .states = {}, .activation = {1'000'000}, .recompute = 2.5}};
  const TierPlacement placement = place_by_value(question);
  EXPECT_FALSE(placement.blocks[0].activation.has_value());
  EXPECT_EQ(placement.blocks[1].activation, PlaceKind::drive);
  EXPECT_DOUBLE_EQ(placement.seconds, 1.5 + 2.0);
  EXPECT_EQ(placement.drive_used, Bytes{1'000'000});
}

TEST(ValueDensity, MoreHostMemoryNeverCostsDriveTrafficOrTime) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    TierQuestion question = random_question(seed, 8);
    question.host = {};
    TierPlacement less = place_by_value(question);
    for (std::int64_t host = 1; host < 500; host += 1 + host / 16) {
      question.host = {host};
      const TierPlacement more = place_by_value(question);
      ASSERT_LE(more.seconds, less.seconds + 1e-9) << "seed " << seed << " host " << host;
      ASSERT_LE(more.drive_read, less.drive_read) << "seed " << seed << " host " << host;
      ASSERT_LE(more.drive_written, less.drive_written) << "seed " << seed << " host " << host;
      less = more;
    }
  }
}

TEST(ValueDensity, WholeItemsAreWithinOneItemOfTheOptimum) {
  int optimal = 0;
  constexpr int kCases = 300;
  for (std::uint64_t seed = 0; seed < kCases; ++seed) {
    TierQuestion question = random_question(seed, 4);
    question.device_spare = {};
    const TierPlacement placement = place_by_value(question);
    const double best = brute_force(question);
    ASSERT_GE(placement.seconds, best - 1e-9) << "seed " << seed;
    ASSERT_LE(placement.seconds_bound, best + 1e-9) << "seed " << seed;
    double largest = 0;
    for (const Item& item : items_of(question)) largest = std::max(largest, item.saved);
    ASSERT_LE(placement.seconds, best + largest + 1e-9) << "seed " << seed;
    if (placement.seconds < best + 1e-9) ++optimal;
  }
  EXPECT_GT(optimal, kCases / 2);
}

// Chunks of one size: the rule is the optimum.
TEST(ValueDensity, EqualSizesArePlacedOptimally) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    TierQuestion question = random_question(seed, 4);
    question.device_spare = {};
    for (BlockDemand& block : question.blocks) {
      block.hi = block.states = block.activation = 10_B;
    }
    question.host = {question.host.count % 130};
    ASSERT_NEAR(place_by_value(question).seconds, brute_force(question), 1e-9) << "seed " << seed;
  }
}

TEST(ValueDensity, NoMemoryHoldsMoreThanItHas) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const TierQuestion question = random_question(seed, 20);
    const TierPlacement placement = place_by_value(question);
    EXPECT_LE(placement.device_used, question.device_spare);
    EXPECT_LE(placement.host_used, question.host);
    EXPECT_LE(placement.seconds_bound, placement.seconds + 1e-9);
  }
}

// 70B in 70 equal blocks on a desktop: traffic as the lower bound's cache shares have it, to a
// block.
TEST(ValueDensity, TrafficIsThatOfTheLowerBound) {
  constexpr double kParameters = 70e9;
  for (const double dram : {44e9, 108e9, 236e9, 500e9}) {
    TierQuestion question;
    question.read_rate = 6.5e9;
    question.write_rate = 3e9;
    question.host = {static_cast<std::int64_t>(dram)};
    question.blocks.assign(
        70, {.hi = {2'000'000'000}, .states = {10'000'000'000}, .activation = {}, .recompute = 0});
    const TierPlacement placement = place_by_value(question);
    const CacheShares shares = cache_shares(kParameters, dram);
    const StateTraffic traffic = state_traffic(shares.hi, shares.states);
    EXPECT_GE(static_cast<double>(placement.drive_read.count), traffic.read * kParameters - 1);
    EXPECT_LE(static_cast<double>(placement.drive_read.count),
              traffic.read * kParameters + 10e9);  // one block's states
    EXPECT_LE(static_cast<double>(placement.drive_written.count),
              traffic.written * kParameters + 10e9);
  }
}

}  // namespace
}  // namespace ferry
