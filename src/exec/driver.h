// Runs a Plan. The loop is the same in production, in the simulator and in tests; only the
// TaskRunner differs. The driver takes no decisions: queue order and dependencies come from the
// plan.
#pragma once

#include <compare>

#include "plan/plan.h"

namespace ferry {

/// A task of one step.
struct TaskRun {
  int step = 0;
  TaskId task;
  auto operator<=>(const TaskRun&) const = default;
};

/// Starts tasks and reports their completion. All calls come from drive()'s thread.
class TaskRunner {
 public:
  virtual ~TaskRunner() = default;

  /// True when the task's resource can take one more task now. Must be true when nothing is in
  /// flight; what is refused is asked again after the next completion.
  virtual bool can_start(const Task& task) const = 0;

  /// True when every resource takes one task at a time, and refuses another until that one is done:
  /// then it is not asked before. Must not change during drive().
  virtual bool takes_one_each() const { return false; }

  /// Starts the task and returns at once. Requires: can_start(task).
  virtual void start(TaskRun run, const Task& task) = 0;

  /// Waits until a started task is done and returns it. A task that failed throws here.
  /// Requires: at least one task is in flight.
  virtual TaskRun wait_any() = 0;

  /// Waits until nothing is in flight, after a failure; errors of those tasks are dropped.
  virtual void drain() = 0;

  /// True when the runner itself makes `later` wait for `earlier` (streams with events), so that
  /// `later` may be started while `earlier` is in flight. Must not change during drive().
  virtual bool orders(const Task& /*earlier*/, const Task& /*later*/) const { return false; }
};

/// Hears what happens during drive(); calls come from its thread. The command line prints it, tests
/// record it.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void started(TaskRun /*run*/) {}
  virtual void finished(TaskRun /*run*/) {}
  /// Every task of `step` is finished; steps end in order.
  virtual void step_finished(int /*step*/) {}
  /// Asked before the first task of `step` starts. False: that step and all later ones are not run.
  virtual bool wants_step(int /*step*/) { return true; }
};

struct StepRange {
  int first = 0;
  int count = 1;
  bool begins_next = false;  // the step behind them, too, beside what they leave for it
};

/// Runs every task once per step. At most two steps are in flight: a step starts when the one
/// before the previous is finished, its tasks when their queue, `after` and (not in the range's
/// first step) `after_previous` allow. Returns the number of steps run, with nothing in flight; a
/// step that was only begun ends there (drain). On failure nothing new is started, the tasks in
/// flight are waited for (drain), and the first error is rethrown. Requires: verify(plan) found
/// nothing, or the caller accepts what follows (a hazard test).
int drive(const Plan& plan, StepRange steps, TaskRunner& runner, Observer& observer);

}  // namespace ferry
