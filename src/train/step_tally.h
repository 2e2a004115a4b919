// What was measured of a run's steps: their times and rates, and what each resource did in the last
// few.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "exec/timeline.h"
#include "plan/plan.h"
#include "report/stall.h"

namespace ferry {

/// How idle a compute queue was in its own step, in shares of that step.
struct Stall {
  double total = 0;
  double copies = 0, drives = 0, host = 0, devices = 0, other = 0;  // as StallCauses has them
};

/// Not for several threads at a time.
class StepTally {
 public:
  static constexpr std::size_t kWarmUpSteps = 2;  // caches, page faults, thread pools
  static constexpr int kKeptSteps = 3;            // of timeline(), so that it stays readable
  static constexpr std::size_t kMedianSteps =
      1000;  // of medians: the last ones, however long a run

  /// The plan must outlive this object.
  explicit StepTally(const Plan& plan) : plan_(plan) {}

  /// Steps from `step` on follow each other without a pause, which may have been before it.
  void drive_begins(int step) { driven_since_ = step; }

  /// `tokens`: those that are not padding. `spans`: what has ended since the step before, some of
  /// it of the next step. Steps are added in ascending order.
  void add(int step, Micros time, std::int64_t tokens, std::vector<Span> spans);

  /// Medians of the last kMedianSteps steps behind the warm-up; of all while there are no others; 0
  /// while there are none.
  Micros median_step() const;
  double median_tokens_per_second() const;

  /// Of the busiest compute queue in the step added last, which ends with the queue's last task of
  /// the step and began when it ended the step before; nothing of a pause counts.
  Stall last_stall() const;

  /// All tasks of the last kKeptSteps steps, also those that ran beside the step before these.
  Timeline timeline() const;

 private:
  const Plan& plan_;
  int driven_since_ = 0;
  std::size_t added_ = 0;
  std::deque<Micros> times_;  // of the steps that medians are of
  std::deque<double> rates_;  // tokens/s, of the same
  int last_step_ = 0;
  std::vector<Span> spans_;  // of the last kKeptSteps steps, and what of the next one has ended
};

}  // namespace ferry
