// One host thread that runs closures in order: the loader's and the optimizer's side of a plan, and
// the launches of a device's tasks.
//
// Errors are caught here, at one place, and handed to whoever takes the completion.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "exec/driver.h"

namespace ferry {

/// A finished host task. `start` and `end` count from the clock that the queue was given.
struct HostCompletion {
  TaskRun run;
  Micros start;
  Micros end;
  std::exception_ptr error;  // null when the task succeeded; of a task that did not run, its cause
};

/// Where host queues leave what they finished. Threads: from any.
class Completions {
 public:
  void add(HostCompletion completion);

  /// Takes the oldest completion; waits up to `patience` for one.
  std::optional<HostCompletion> take(Micros patience);

 private:
  std::mutex mutex_;
  std::condition_variable added_;
  std::deque<HostCompletion> done_;
};

/// Runs pushed closures one at a time, in order, on its own thread. Behind one that throws none
/// runs any more: each completes with that error. The destructor lets the closures already pushed
/// finish. `completions` and `now` must outlive the queue.
class HostQueue {
 public:
  /// `on_start` runs first on the new thread.
  HostQueue(
      Completions& completions, std::function<Micros()> now,
      std::function<void()> on_start = [] {});
  ~HostQueue();
  HostQueue(const HostQueue&) = delete;
  HostQueue& operator=(const HostQueue&) = delete;

  /// Runs `work` after everything pushed before; its end is reported under `run`.
  void push(TaskRun run, std::function<void()> work);

 private:
  struct Item {
    TaskRun run;
    std::function<void()> work;
  };

  void serve();

  Completions& completions_;
  const std::function<Micros()> now_;

  std::mutex mutex_;  // guards the two below
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool closing_ = false;

  std::thread thread_;  // last, so that it ends before what it uses
};

}  // namespace ferry
