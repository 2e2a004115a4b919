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

/// A task of one of the replayed steps: step * tasks + task.
using RunId = int;

/// One logical clock per resource and run: how many runs of that resource happen before or are
/// this one. Vector clocks, as in Fidge and Mattern.
class Clocks {
 public:
  /// Requires: `order` is order_step(plan) without a cycle.
  Clocks(const Plan& plan, const StepOrder& order, int steps);

  /// True when `earlier` is `later`, or ordered before it. A negative `earlier` stands for what
  /// was there before the first step.
  bool ordered(RunId earlier, RunId later) const {
    if (earlier < 0) return true;
    const auto first = static_cast<std::size_t>(earlier);
    const std::size_t row = static_cast<std::size_t>(later) * resources_;
    return ticks_[row + resource_of(first)] >= position_[first];
  }

 private:
  std::size_t resource_of(std::size_t run) const { return resource_[run % resource_.size()]; }
  void join(std::size_t row, RunId earlier);

  std::size_t resources_;               // that have tasks
  std::vector<std::size_t> resource_;   // by task, counting only resources that have tasks
  std::vector<std::int32_t> position_;  // by run: 1 for the first of its resource
  std::vector<std::int32_t> ticks_;     // by run and resource
};

}  // namespace ferry
