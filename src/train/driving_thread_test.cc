#include "train/driving_thread.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>

namespace ferry {
namespace {

int nice_value() {
  errno = 0;
  return getpriority(PRIO_PROCESS, 0);
}

TEST(DrivingThread, GivesWayWithoutSlowingItsCaller) {
  const int before = nice_value();
  int inside = 0;
  on_driving_thread(true, [&] { inside = nice_value(); });
  EXPECT_EQ(inside, std::min(before + 10, 19));
  EXPECT_EQ(nice_value(), before);
  on_driving_thread(false, [&] { inside = nice_value(); });
  EXPECT_EQ(inside, before);
}

TEST(DrivingThread, WhatTheWorkThrowsReachesTheCaller) {
  EXPECT_THROW(on_driving_thread(true, [] { throw std::runtime_error("broken"); }),
               std::runtime_error);
}

}  // namespace
}  // namespace ferry
