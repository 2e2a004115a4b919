#include "cli/other_load.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <string>

#include "spec/fake_box.h"

namespace ferry {
namespace {

CoreSeconds reading(double passed, double worked, double own, int cores) {
  return {.passed = passed, .worked = worked, .own = own, .cores = cores};
}

TEST(OtherLoad, IsWhatThisProcessDidNotDo) {
  EXPECT_DOUBLE_EQ(*taken_by_others(reading(10, 100, 7, 2), reading(12, 104, 9, 2)), 1);
  EXPECT_EQ(taken_by_others(reading(10, 100, 7, 2), reading(12, 104, 11, 2)), 0);
  EXPECT_EQ(taken_by_others(reading(10, 100, 7, 2), reading(12, 102, 11, 2)),
            0);  // ticks are coarse
}

TEST(OtherLoad, ALittleDoesNotCountNorDoesAShortTime) {
  EXPECT_EQ(taken_by_others(reading(0, 0, 0, 2), reading(10, 2, 0, 2)), 0);
  EXPECT_DOUBLE_EQ(*taken_by_others(reading(0, 0, 0, 2), reading(10, 3, 0, 2)), 0.3);
  EXPECT_EQ(taken_by_others(reading(0, 0, 0, 64), reading(10, 60, 0, 64)), 0);
  EXPECT_DOUBLE_EQ(*taken_by_others(reading(0, 0, 0, 64), reading(10, 70, 0, 64)), 7);
  EXPECT_FALSE(taken_by_others(reading(0, 0, 0, 2), reading(0.1, 0.2, 0, 2)));
}

/// Of the cores of a fake box of which this process may run on one.
int core_of_this_process() {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  EXPECT_EQ(sched_getaffinity(0, sizeof(mine), &mine), 0);
  int core = 0;
  while (!CPU_ISSET(core, &mine)) ++core;
  return core;
}

TEST(OtherLoad, CountsTheCoresThatThisProcessMayRunOn) {
  const FakeBox box("ferry_other_load");
  const std::string core = std::to_string(core_of_this_process());
  box.write("proc/stat",
            "cpu  900 900 900 900 900 900 900 900 0 0\n"
            "cpu" +
                core +
                " 100 20 30 5000 600 7 3 40 9 9\n"
                "cpu1023 900 900 900 900 900 900 900 900 0 0\n"
                "intr 5 5 5");
  const CoreSeconds now = core_seconds(box.path());
  EXPECT_EQ(now.cores, 1);
  EXPECT_DOUBLE_EQ(now.worked, 2);  // 200 ticks of 10 ms
  EXPECT_GT(now.own, 0);
}

TEST(OtherLoad, WithoutCountsNobodyElseWorks) {
  const FakeBox box("ferry_no_load");
  const CoreSeconds before = core_seconds(box.path());
  CoreSeconds after = core_seconds(box.path());
  after.passed = before.passed + 1;
  EXPECT_EQ(taken_by_others(before, after), 0);
}

}  // namespace
}  // namespace ferry
