#include "simdev/link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <thread>

namespace ferry {
namespace {

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A busy machine makes a run longer, never shorter.
double shortest_of_three(const std::function<void()>& work) {
  return std::min({seconds_of(work), seconds_of(work), seconds_of(work)});
}

Route over(std::vector<Draw> draws) { return {draws, draws.front().rate, {}}; }

const auto kNothing = [] {};

// Lower limits are exact, upper limits generous.
TEST(SharedLinks, ACopyTakesItsBytesOverTheRate) {
  SharedLinks links({1e6});
  const Route route = over({{0, 1e6}});
  const double seconds = shortest_of_three([&] { links.carry(route, {50'000}, kNothing); });
  EXPECT_GE(seconds, 0.050);
  EXPECT_LT(seconds, 0.090);
}

TEST(SharedLinks, LatencyIsAdded) {
  SharedLinks links({1e6});
  Route route = over({{0, 1e6}});
  route.latency = Micros{30'000};
  EXPECT_GE(seconds_of([&] { links.carry(route, {20'000}, kNothing); }), 0.050);
}

TEST(SharedLinks, WhoComesLateLosesNothing) {
  SharedLinks links({1e6});
  const Route route = over({{0, 1e6}});
  const auto ready = SharedLinks::Clock::now() - std::chrono::milliseconds(200);
  SharedLinks::Clock::time_point end;
  EXPECT_LT(shortest_of_three([&] { end = links.carry(route, {100'000}, kNothing, ready); }), 0.1);
  EXPECT_NEAR(std::chrono::duration<double>(end - ready).count(), 0.1, 1e-6);
}

TEST(SharedLinks, CopiesInARowTakeTheirBytesOverTheRateToTheMicrosecond) {
  SharedLinks links({1e6});
  const Route route = over({{0, 1e6}});
  const auto start = SharedLinks::Clock::now();
  auto end = start;
  for (int i = 0; i < 20; ++i) end = links.carry(route, {5'000}, kNothing, end);
  EXPECT_NEAR(std::chrono::duration<double>(end - start).count(), 0.1, 1e-6);
}

TEST(SharedLinks, WithoutARateACopyIsImmediate) {
  SharedLinks links({});
  bool moved = false;
  links.carry({}, {1 << 30}, [&] { moved = true; });
  EXPECT_TRUE(moved);
}

TEST(SharedLinks, TwoCopiesUnderOneRootTakeTwiceAsLong) {
  SharedLinks links({1e6, 1e6, 1e6});
  const Route first = over({{0, 1e6}, {2, 1e6}}), second = over({{1, 1e6}, {2, 1e6}});
  const double seconds = shortest_of_three([&] {
    std::thread other([&] { links.carry(first, {40'000}, kNothing); });
    links.carry(second, {40'000}, kNothing);
    other.join();
  });
  EXPECT_GE(seconds, 0.080);
  EXPECT_LT(seconds, 0.130);
}

TEST(SharedLinks, CopiesOnDifferentRootsDoNotMeet) {
  SharedLinks links({1e6, 1e6});
  const Route first = over({{0, 1e6}}), second = over({{1, 1e6}});
  const double seconds = shortest_of_three([&] {
    std::thread other([&] { links.carry(first, {60'000}, kNothing); });
    links.carry(second, {60'000}, kNothing);
    other.join();
  });
  EXPECT_GE(seconds, 0.060);
  EXPECT_LT(seconds, 0.105);
}

// The long copy has the link for itself once the short one has ended: 20 ms + 40 ms shared.
TEST(SharedLinks, WhatAShortCopyLeavesSpeedsUpTheLongOne) {
  SharedLinks links({1e6});
  const Route route = over({{0, 1e6}});
  double short_seconds = 1;
  const double seconds = shortest_of_three([&] {
    std::thread other([&] {
      short_seconds =
          std::min(short_seconds, seconds_of([&] { links.carry(route, {20'000}, kNothing); }));
    });
    links.carry(route, {40'000}, kNothing);
    other.join();
  });
  EXPECT_GE(seconds, 0.060);
  EXPECT_LT(seconds, 0.100);
  EXPECT_LT(short_seconds, 0.060);
}

TEST(SharedLinks, TimeThatTheMoveItselfTakesCounts) {
  SharedLinks links({1e6});
  const Route route = over({{0, 1e6}});
  const double seconds = shortest_of_three([&] {
    links.carry(route, {50'000},
                [] { std::this_thread::sleep_for(std::chrono::milliseconds(40)); });
  });
  EXPECT_GE(seconds, 0.050);
  EXPECT_LT(seconds, 0.085);
}

TEST(SharedLinks, AFailedMoveLeavesTheLinkFree) {
  SharedLinks links({1e6});
  const Route route = over({{0, 1e6}});
  EXPECT_THROW(links.carry(route, {1'000'000'000}, [] { throw std::runtime_error("lost"); }),
               std::runtime_error);
  EXPECT_LT(shortest_of_three([&] { links.carry(route, {10'000}, kNothing); }), 0.050);
}

TEST(SharedLinks, ManyThreadsShareWithoutLosingTime) {
  SharedLinks links({1e6});
  const Route route = over({{0, 1e6}});
  const double seconds = shortest_of_three([&] {
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 4; ++i) links.carry(route, {2'000}, kNothing);
      });
    }
    for (auto& thread : threads) thread.join();
  });
  EXPECT_GE(seconds, 0.064);
}

}  // namespace
}  // namespace ferry
