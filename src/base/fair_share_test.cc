#include "base/fair_share.h"

#include <gtest/gtest.h>

#include <random>

namespace ferry {
namespace {

TEST(FairShare, AloneAnActivityRunsAtFullSpeed) {
  const Draw link{0, 13e9};
  const Activity copy{1, {&link, 1}};
  EXPECT_EQ(fair_speeds({{copy}}, {{13e9}}), std::vector<double>{1.0});
}

TEST(FairShare, TwoCopiesUnderOneRootComplexGetHalfEach) {
  const std::vector<Draw> first = {{0, 13e9}, {2, 13e9}}, second = {{1, 13e9}, {2, 13e9}};
  const std::vector<Activity> copies = {{1, first}, {1, second}};
  const std::vector<double> capacities = {13e9, 13e9, 13e9};
  EXPECT_EQ(fair_speeds(copies, capacities), (std::vector<double>{0.5, 0.5}));
}

// A narrow link leaves what it cannot use to its neighbour: equal bytes per second, not equal
// fractions.
TEST(FairShare, WeightsOfOneOverTheRateShareBytesEqually) {
  const std::vector<Draw> narrow = {{0, 4e9}}, wide = {{0, 12e9}};
  const std::vector<Activity> copies = {{3, narrow}, {1, wide}};
  const auto speeds = fair_speeds(copies, {{12e9}});
  EXPECT_DOUBLE_EQ(speeds[0], 1.0);
  EXPECT_DOUBLE_EQ(speeds[1], 8.0 / 12.0);
}

TEST(FairShare, WhatSlowsOneActivityIsFreeForTheOthers) {
  const std::vector<Draw> both = {{0, 1}, {1, 1}}, only_second = {{1, 1}};
  const std::vector<Activity> activities = {{1, both}, {1, only_second}};
  const auto speeds = fair_speeds(activities, {{0.25, 1.0}});
  EXPECT_DOUBLE_EQ(speeds[0], 0.25);
  EXPECT_DOUBLE_EQ(speeds[1], 0.75);
}

TEST(FairShare, NoPoolIsOverdrawnAndEveryActivityIsHeldBackBySomething) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> uniform(0.1, 2.0);
    std::vector<double> capacities(4);
    for (double& capacity : capacities) capacity = uniform(random);
    std::vector<std::vector<Draw>> draws(6);
    std::vector<Activity> activities;
    for (auto& list : draws) {
      for (int pool = 0; pool < 4; ++pool) {
        if (random() % 2 == 0) list.push_back({pool, uniform(random)});
      }
      activities.push_back({uniform(random), list});
    }
    const auto speeds = fair_speeds(activities, capacities);

    std::vector<double> used(4);
    for (std::size_t i = 0; i < speeds.size(); ++i) {
      for (const Draw& draw : draws[i]) used[draw.pool.index()] += speeds[i] * draw.rate;
    }
    for (int pool = 0; pool < 4; ++pool) EXPECT_LE(used[pool], capacities[pool] * (1 + 1e-9));
    for (std::size_t i = 0; i < speeds.size(); ++i) {
      bool held_back = speeds[i] >= 1 - 1e-9;
      for (const Draw& draw : draws[i]) {
        const auto pool = draw.pool.index();
        held_back = held_back || used[pool] >= capacities[pool] * (1 - 1e-9);
      }
      EXPECT_TRUE(held_back) << "activity " << i;
    }
  }
}

}  // namespace
}  // namespace ferry
