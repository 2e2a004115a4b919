// A stream: tasks that run one after the other on a thread of their own, and the events that order
// streams among each other. Knows nothing of torch.
//
// Every stream has a clock. A real engine starts its next copy when the last one ends; a thread
// wakes up somewhat later. So a task may say when it ended, and copies start from that time.
//
// A task that throws does not stop its stream. The failure is kept, follows events to the streams
// that wait for them, and is thrown once: at the first host wait that is ordered after it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "simdev/hazards.h"

namespace ferry {

using StreamTime = std::chrono::steady_clock::time_point;

/// What a task threw. Shared by the streams and events that come after it.
struct Failure {
  std::exception_ptr error;
  std::atomic<bool> reported = false;
};
using FailurePointer = std::shared_ptr<Failure>;

/// Takes the failure's error, or null when there is none or it was taken before.
std::exception_ptr take(const FailurePointer& failure);

/// A point in a stream's work that hosts and other streams can wait for. May be recorded again;
/// who waits then waits for the recording that was the latest when the wait was asked for.
/// All calls are safe from any thread.
class StreamEvent {
 public:
  struct Recording {
    std::uint64_t number = 0;  // 0: never recorded, which counts as completed
    HazardClock clock;         // what waiting for it lets the waiter see
  };

  /// Starts a recording and returns its number.
  std::uint64_t record(HazardClock clock);
  void complete(std::uint64_t number, FailurePointer failure, StreamTime at);

  Recording latest() const;
  bool completed(std::uint64_t number) const;
  /// Returns when the recording has completed, with the failure its stream had then.
  FailurePointer wait(std::uint64_t number) const;
  /// When the latest completed recording completed. Requires: one has.
  StreamTime completed_at() const;
  /// When the latest recording completed. Nothing while it has not, or before the first one: then
  /// CUDA tells no time of an event either.
  std::optional<StreamTime> time() const;

 private:
  mutable std::mutex mutex_;  // guards everything below
  mutable std::condition_variable completed_cv_;
  std::uint64_t recorded_ = 0;
  std::uint64_t completed_ = 0;
  HazardClock clock_;
  FailurePointer failure_;
  StreamTime completed_at_;
};
using EventPointer = std::shared_ptr<StreamEvent>;

/// One stream. All calls are safe from any thread but the stream's own, except the three below.
class TaskQueue {
 public:
  using Task = std::function<void()>;
  static constexpr std::chrono::milliseconds kRest{100};

  // For tasks, on the stream's own thread:
  /// The stream that runs the calling task.
  static TaskQueue& current();
  /// When that task could start: it was pushed, and what it waits for had ended.
  StreamTime ready() const { return ready_; }
  /// The task ended then; without this, when it returns.
  void end_at(StreamTime time) { ended_ = time; }

  /// `on_start` runs first on the new thread. More than `most_waiting` tasks do not wait at a time:
  /// a push beyond makes its thread wait, unless that is a stream's. 0: any number. `on_rest` runs
  /// there whenever nothing was queued for kRest; it must not throw.
  explicit TaskQueue(Task on_start, std::size_t most_waiting = 0, Task on_rest = {});
  /// Runs what is queued, then ends the thread. Events that it waits for must complete.
  ~TaskQueue();
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  void push(Task task);
  /// The event completes when all that was pushed before has run.
  void record(const EventPointer& event, HazardClock clock);
  /// What is pushed from now on runs after the event's latest recording.
  void block(const EventPointer& event);

  /// Returns when all that was pushed before the call has run. Throws the kept failure, if any.
  void wait();
  bool idle() const;
  /// How often a push had to wait.
  long times_full() const;
  /// Takes the kept failure without waiting; null when there is none.
  std::exception_ptr take_error();

 private:
  struct Item {
    Task task;
    StreamTime pushed;
  };

  void run(const Task& on_start, const Task& on_rest);
  void await_work(std::unique_lock<std::mutex>& lock, const Task& on_rest);
  void keep(FailurePointer failure);
  FailurePointer failure() const;

  const std::size_t most_waiting_;
  mutable std::mutex mutex_;  // guards everything below but the thread
  long times_full_ = 0;
  std::condition_variable room_cv_;
  std::condition_variable pushed_cv_;
  std::condition_variable done_cv_;
  std::deque<Item> items_;
  std::uint64_t pushed_ = 0;              // tasks ever
  std::uint64_t done_ = 0;                // of those, the ones that have run
  std::multiset<std::uint64_t> awaited_;  // values of done_ that hosts wait for
  bool closing_ = false;
  FailurePointer failure_;  // the first one that nobody has taken
  // Of the stream's own thread.
  StreamTime ready_;
  std::optional<StreamTime> ended_;
  std::thread thread_;
};

}  // namespace ferry
