// The order that a plan's queues and dependencies define: a topological order of one step's tasks,
// and clocks that answer "is an ancestor of" over several steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace ferry {

/// A step's tasks, each behind its queue's earlier tasks and its `after`; among those that are free
/// to come next, the first in plan order. `cycle` is empty, or the tasks of one cycle, each before
/// the next and the last before the first; then `tasks` is incomplete.
struct StepOrder {
  std::vector<TaskId> tasks;
  std::vector<TaskId> cycle;
};

/// Requires: ids in range.
StepOrder order_step(const Plan& plan);

/// A task of one of the replayed steps; none stands for what was there before the first step.
using RunId = Id<struct RunTag>;

/// The runs of a plan, counted step by step.
class RunIds {
 public:
  explicit RunIds(const Plan& plan) : tasks_(static_cast<int>(plan.tasks.size())) {}

  RunId of(int step, TaskId task) const { return RunId(step * tasks_ + task.number()); }
  int step(RunId run) const { return run.number() / tasks_; }
  TaskId task(RunId run) const { return TaskId(run.number() % tasks_); }

 private:
  int tasks_;
};

/// One logical clock per resource and run: how many runs of that resource happen before or are
/// this one. Vector clocks, as in Fidge and Mattern.
class Clocks {
 public:
  /// Requires: `order` is order_step(plan) without a cycle.
  Clocks(const Plan& plan, const StepOrder& order, int steps);

  /// True when `earlier` is `later`, or ordered before it.
  bool ordered(RunId earlier, RunId later) const {
    if (!earlier.valid()) return true;
    return ticks_[row_of(later) + resource_of(earlier)] >= position_[earlier];
  }

 private:
  std::size_t resource_of(RunId run) const { return resource_[run.index() % resource_.size()]; }
  std::size_t row_of(RunId run) const { return run.index() * resources_; }
  void join(RunId run, RunId earlier);

  std::size_t resources_;                   // that have tasks
  std::vector<std::size_t> resource_;       // by task, counting only resources that have tasks
  IdVector<RunId, std::int32_t> position_;  // 1 for the first of its resource
  std::vector<std::int32_t> ticks_;         // by run and resource
};

}  // namespace ferry
