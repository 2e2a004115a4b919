#include "train/step_tally.h"

#include <gtest/gtest.h>

#include <vector>

#include "report/sample_waits.h"

namespace ferry {
namespace {

/// A step in which `compute` is busy for 30 of 60 us: it waits 20 for the drive, 5 for the copy up
/// and 5 for the token.
std::vector<Span> step_from(double start, const Plan& plan, int step) {
  const auto span = [&](const char* name, double from, double to) {
    return sample_span(plan, name, step, start + from, start + to);
  };
  return {span("aside", 0, 5), span("first", 0, 10),   span("read", 0, 30),  span("up", 30, 35),
          span("load", 0, 50), span("second", 35, 45), span("third", 50, 60)};
}

TEST(StepTally, MediansLeaveTheWarmUpOutOnceThereIsMore) {
  const Plan test = sample_waits();
  StepTally tally(test);
  EXPECT_DOUBLE_EQ(tally.median_step().count, 0);
  EXPECT_DOUBLE_EQ(tally.median_tokens_per_second(), 0);

  tally.add(0, Micros{9e6}, 90, {});
  EXPECT_DOUBLE_EQ(tally.median_step().seconds(), 9);
  EXPECT_DOUBLE_EQ(tally.median_tokens_per_second(), 10);

  tally.add(1, Micros{8e6}, 80, {});
  tally.add(2, Micros{3e6}, 60, {});
  tally.add(3, Micros{1e6}, 60, {});
  tally.add(4, Micros{2e6}, 60, {});
  EXPECT_DOUBLE_EQ(tally.median_step().seconds(), 2);
  EXPECT_DOUBLE_EQ(tally.median_tokens_per_second(), 30);

  tally.add(5, Micros{4e6}, 80, {});  // of an even number the mean of the two in the middle
  EXPECT_DOUBLE_EQ(tally.median_step().seconds(), 2.5);
  EXPECT_DOUBLE_EQ(tally.median_tokens_per_second(), 25);
}

TEST(StepTally, MediansAreOfTheLastSteps) {
  const Plan test = sample_waits();
  StepTally tally(test);
  constexpr int kSteps = StepTally::kWarmUpSteps + StepTally::kMedianSteps;
  for (int step = 0; step < kSteps; ++step) tally.add(step, Micros{1e6}, 10, {});
  for (int step = 0; step < 501; ++step) tally.add(kSteps + step, Micros{2e6}, 60, {});
  EXPECT_DOUBLE_EQ(tally.median_step().seconds(), 2);
  EXPECT_DOUBLE_EQ(tally.median_tokens_per_second(), 30);
}

TEST(StepTally, AStepWithoutMeasuredTimeHasNoRate) {
  const Plan test = sample_waits();
  StepTally tally(test);
  tally.add(0, Micros{}, 90, {});
  EXPECT_DOUBLE_EQ(tally.median_tokens_per_second(), 0);
}

TEST(StepTally, TheStallIsThatOfTheBusiestQueueInItsOwnStep) {
  const Plan test = sample_waits();
  StepTally tally(test);
  tally.add(0, Micros{60}, 1, step_from(0, test, 0));
  tally.add(1, Micros{60}, 1, step_from(60, test, 1));

  const Stall stall = tally.last_stall();
  EXPECT_DOUBLE_EQ(stall.total, 30.0 / 60);
  EXPECT_DOUBLE_EQ(stall.drives, 20.0 / 60);
  EXPECT_DOUBLE_EQ(stall.copies, 5.0 / 60);
  EXPECT_DOUBLE_EQ(stall.host, 5.0 / 60);
  EXPECT_DOUBLE_EQ(stall.devices + stall.other, 0);
}

TEST(StepTally, APauseBetweenStepsIsNoStall) {
  const Plan test = sample_waits();
  for (const bool pauses : {false, true}) {
    StepTally tally(test);
    tally.add(0, Micros{60}, 1, step_from(0, test, 0));
    if (pauses) tally.drive_begins(1);
    tally.add(1, Micros{60}, 1, step_from(1000, test, 1));
    EXPECT_DOUBLE_EQ(tally.last_stall().other, pauses ? 0 : 940.0 / 1000);
    EXPECT_DOUBLE_EQ(tally.last_stall().drives, pauses ? 20.0 / 60 : 20.0 / 1000);
  }
}

// Every step's `aside` ends while the step before still runs, and is noticed behind what ended
// later.
TEST(StepTally, TheTimelineHasAllOfItsStepsByTheirEnds) {
  const Plan test = sample_waits();
  StepTally tally(test);
  for (int step = 0; step < 5; ++step) {
    const double end = step * 60.0 + 60;
    tally.add(step, Micros{60}, 1,
              {sample_span(test, "third", step, end - 10, end),
               sample_span(test, "aside", step + 1, end - 20, end - 5)});
  }
  std::vector<TaskRun> runs;
  for (const Span& kept : tally.timeline().spans) runs.push_back(kept.run);
  const TaskId aside = sample_span(test, "aside", 0, 0, 0).run.task;
  const TaskId third = sample_span(test, "third", 0, 0, 0).run.task;
  EXPECT_EQ(runs, (std::vector<TaskRun>{
                      {2, aside}, {3, aside}, {2, third}, {4, aside}, {3, third}, {4, third}}));
}

TEST(StepTally, TheTimelineHasTheLastStepsInTheirOrder) {
  const Plan test = sample_waits();
  StepTally tally(test);
  for (int step = 0; step < 5; ++step) {
    tally.add(step, Micros{60}, 1,
              {sample_span(test, "aside", step, step * 60.0, step * 60.0 + 5)});
  }
  std::vector<int> steps;
  for (const Span& kept : tally.timeline().spans) steps.push_back(kept.run.step);
  EXPECT_EQ(steps, (std::vector<int>{2, 3, 4}));
}

}  // namespace
}  // namespace ferry
