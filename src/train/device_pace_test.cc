#include "train/device_pace.h"

#include <gtest/gtest.h>

#include <vector>

namespace ferry {
namespace {

/// Two devices that compute on the host's cores, for 10 us each by the plan, a copy that takes one
/// of them and an update that takes all.
struct Computing {
  Computing() {
    const PoolId cores = plan.pools.add({"cores", 2});
    const auto add = [&](const char* name, ResourceKind kind, std::vector<Draw> draws) {
      Task task;
      task.name = name;
      task.resource = plan.resources.add({name, kind, {}, 0, {}, std::move(draws)});
      task.micros = {10};
      return plan.tasks.add(task);
    };
    first = add("gpu0.compute", ResourceKind::compute, {{cores, 1}});
    second = add("gpu1.compute", ResourceKind::compute, {{cores, 1}});
    copy = add("gpu0.up", ResourceKind::copy, {{cores, 1}});
    update = add("host.update", ResourceKind::host, {{cores, 2}});
  }

  void ran(TaskId task, double from, double to, int step = 1) {
    spans.push_back({{step, task}, {from}, {to}});
  }

  double rate(int least) const { return computing_rate(plan, spans, 1, least); }

  Plan plan;
  TaskId first, second, copy, update;
  std::vector<Span> spans;
};

TEST(ComputingRate, IsWhatDevicesDoOfTheirPlannedTimes) {
  Computing seen;
  seen.ran(seen.first, 0, 12.5);
  seen.ran(seen.second, 0, 12.5);
  EXPECT_DOUBLE_EQ(seen.rate(1), 1.6);
  EXPECT_DOUBLE_EQ(seen.rate(2), 1.6);
  EXPECT_DOUBLE_EQ(seen.rate(3), 0) << "so many never compute";
  EXPECT_DOUBLE_EQ(Computing().rate(1), 0);
}

TEST(ComputingRate, LeavesTimesOutInWhichFewerCompute) {
  Computing seen;
  seen.ran(seen.first, 0, 20);    // a half of its planned time per time
  seen.ran(seen.second, 10, 20);  // all of it, beside the other
  EXPECT_DOUBLE_EQ(seen.rate(2), 1.5);
}

TEST(ComputingRate, LeavesTimesOutInWhichTheHostUpdates) {
  Computing seen;
  seen.ran(seen.first, 0, 10);
  seen.ran(seen.copy, 0, 10);
  seen.ran(seen.first, 10, 50);
  seen.ran(seen.update, 10, 50);
  EXPECT_DOUBLE_EQ(seen.rate(1), 1) << "copies are beside what is computed, as in every step";
}

TEST(ComputingRate, LooksBehindTheFirstSteps) {
  Computing seen;
  seen.ran(seen.first, 0, 100, 0);
  seen.ran(seen.second, 90, 110);  // of the second step, begun in the first
  seen.ran(seen.first, 110, 120);
  EXPECT_DOUBLE_EQ(seen.rate(1), 0.75) << "the median part of it is half of either";
}

TEST(ComputingRate, AMomentThatIsSlowDoesNotMoveIt) {
  Computing seen;
  for (int i = 0; i < 9; ++i) seen.ran(seen.first, 10 * i, 10 * (i + 1));
  seen.ran(seen.first, 90, 105);
  EXPECT_DOUBLE_EQ(seen.rate(1), 1);
}

/// Two devices, and a copy from the first to the second; each task begins so long behind what it
/// waits for, in one step far longer.
struct HandingOver : Computing {
  explicit HandingOver(int steps = 30) {
    plan.tasks[copy].after = {first};
    plan.tasks[second].after = {copy};
    for (int step = 1; step <= steps; ++step) {
      const double begin = 100 * step, late = step == 5 ? 20 : 0;
      ran(first, begin, begin + 10, step);
      ran(copy, begin + 13 + late, begin + 30 + late, step);
      ran(second, begin + 34 + late, begin + 40 + late, step);
    }
  }

  StartingDelays delays() const { return starting_delays(plan, spans, 1); }
};

TEST(StartingDelays, CountFromTheEndOfAllThatATaskWaitsFor) {
  const HandingOver seen;
  EXPECT_DOUBLE_EQ(seen.delays().task.count, 90) << "a device's task behind the one before it";
  EXPECT_DOUBLE_EQ(seen.delays().copy.count, 3 + 4) << "the copy, and who computes behind it";
}

TEST(StartingDelays, WhoWaitsForTheHostIsNoneOfThem) {
  HandingOver seen(60);
  seen.plan.tasks[seen.second].after_previous = {seen.update};
  for (int step = 1; step <= 31; ++step) {
    seen.ran(seen.update, 100 * step + 32, 100 * step + 33, step - 1);
  }
  EXPECT_EQ(seen.delays().copy.count, 7)
      << "30 wait for copies: those of the late step and 29 more";
  seen.ran(seen.update, 3200 + 32, 3200 + 33, 31);
  EXPECT_EQ(seen.delays().copy.count, 0) << "these are too few";
  EXPECT_DOUBLE_EQ(seen.delays().task.count, 90);
}

TEST(StartingDelays, LookBehindTheFirstSteps) {
  HandingOver seen;
  for (int i = 0; i < 40; ++i) seen.ran(seen.first, 50 + i, 50.5 + i, 0);
  EXPECT_DOUBLE_EQ(seen.delays().task.count, 90);
}

}  // namespace
}  // namespace ferry
