// The threads that launch device tasks: one for each physical device.
//
// To launch a task is to hand its operators to a stream, at some microseconds of the host's time
// each. A device whose launches take long, or stop because it has taken all it takes ahead, holds
// up no other device, and the thread that drives the plan only decides and listens.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "train/host_queue.h"

namespace ferry {

/// Each thread launches its tasks in the order in which they were pushed. Behind a launch that
/// throws nothing is launched any more, on no thread: what was pushed completes with that error.
///
/// Waiting for launches of other threads cannot last for ever. Of all that is pushed and not
/// launched take what was pushed first: it is its thread's next, and all that it waits for was
/// pushed before it, so is launched. What a launch itself waits for, room on a stream, comes when
/// the device has run what it has; that waits for nothing that is yet to be launched, by the same
/// argument.
///
/// push() and the destructor: from one thread.
class LaunchThreads {
 public:
  /// `completions` and `now` must outlive this.
  LaunchThreads(Completions& completions, std::function<Micros()> now);

  /// Lets what was pushed finish.
  ~LaunchThreads() = default;

  /// Starts one more thread, which calls `on_start` first, and returns its number.
  int add(std::function<void()> on_start);

  /// Calls `launch` on a thread, behind the launches of `after`: an event can be waited for only
  /// once it is recorded. A completion tells when that began and ended, or what it threw.
  /// Requires: `after` were pushed before.
  void push(int thread, TaskRun run, std::vector<TaskRun> after, std::function<void()> launch);

 private:
  void wait_for(const std::vector<TaskRun>& after);
  void note_launched(TaskRun run);
  void note_failure(std::exception_ptr failure);

  Completions& completions_;
  const std::function<Micros()> now_;

  std::mutex mutex_;  // guards the three below
  std::condition_variable changed_;
  std::set<TaskRun> awaited_;   // pushed and not launched
  std::exception_ptr failure_;  // the first

  std::vector<std::unique_ptr<HostQueue>> threads_;  // last, so that they end first
};

}  // namespace ferry
