#include "simdev/link.h"

#include <gtest/gtest.h>

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

Route over(std::vector<Draw> draws) { return {draws, draws.front().rate, {}}; }

const auto kNothing = [] {};

// Upper limits are generous: the machine that runs the tests may be busy.
TEST(SharedLinks, ACopyTakesItsBytesOverTheRate) {
  SharedLinks links({1e6});
  const Route route = over({{0, 1e6}});
  const double seconds = seconds_of([&] { links.carry(route, {50'000}, kNothing); });
  EXPECT_GE(seconds, 0.050);
  EXPECT_LT(seconds, 0.090);
}

TEST(SharedLinks, LatencyIsAdded) {
  SharedLinks links({1e6});
  Route route = over({{0, 1e6}});
  route.latency = Micros{30'000};
  EXPECT_GE(seconds_of([&] { links.carry(route, {20'000}, kNothing); }), 0.050);
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
  const double seconds = seconds_of([&] {
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
  const double seconds = seconds_of([&] {
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
  double short_seconds = 0;
  const double seconds = seconds_of([&] {
    std::thread other(
        [&] { short_seconds = seconds_of([&] { links.carry(route, {20'000}, kNothing); }); });
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
  const double seconds = seconds_of([&] {
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
  EXPECT_LT(seconds_of([&] { links.carry(route, {10'000}, kNothing); }), 0.050);
}

TEST(SharedLinks, ManyThreadsShareWithoutLosingTime) {
  SharedLinks links({1e6});
  const Route route = over({{0, 1e6}});
  const double seconds = seconds_of([&] {
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
