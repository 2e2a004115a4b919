#include "simdev/queue.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ferry {
namespace {

thread_local TaskQueue* this_threads_queue = nullptr;

}  // namespace

std::exception_ptr take(const FailurePointer& failure) {
  if (!failure || failure->reported.exchange(true)) return nullptr;
  return failure->error;
}

std::uint64_t StreamEvent::record(HazardClock clock) {
  const std::lock_guard lock(mutex_);
  clock_ = std::move(clock);
  return ++recorded_;
}

void StreamEvent::complete(std::uint64_t number, FailurePointer failure, StreamTime at) {
  const std::lock_guard lock(mutex_);
  if (number < completed_) return;  // recorded on two streams, and the later one was faster
  completed_ = number;
  failure_ = std::move(failure);
  completed_at_ = at;
  completed_cv_.notify_all();
}

StreamEvent::Recording StreamEvent::latest() const {
  const std::lock_guard lock(mutex_);
  return {recorded_, clock_};
}

bool StreamEvent::completed(std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  return completed_ >= number;
}

FailurePointer StreamEvent::wait(std::uint64_t number) const {
  std::unique_lock lock(mutex_);
  completed_cv_.wait(lock, [&] { return completed_ >= number; });
  return failure_;
}

StreamTime StreamEvent::completed_at() const {
  const std::lock_guard lock(mutex_);
  FERRY_CHECK(completed_ > 0, "the time of an event that never completed");
  return completed_at_;
}

std::optional<StreamTime> StreamEvent::time() const {
  const std::lock_guard lock(mutex_);
  if (recorded_ == 0 || completed_ < recorded_) return std::nullopt;
  return completed_at_;
}

TaskQueue::TaskQueue(Task on_start, std::size_t most_waiting, Task on_rest)
    : most_waiting_(most_waiting),
      thread_([this, on_start = std::move(on_start), on_rest = std::move(on_rest)] {
        run(on_start, on_rest);
      }) {}

TaskQueue& TaskQueue::current() {
  FERRY_CHECK(this_threads_queue, "this is not the thread of a stream");
  return *this_threads_queue;
}

TaskQueue::~TaskQueue() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  pushed_cv_.notify_all();
  thread_.join();
}

void TaskQueue::push(Task task) {
  {
    std::unique_lock lock(mutex_);
    FERRY_CHECK(!closing_, "work was given to a stream that is being closed");
    // A stream's own thread never waits here: it might wait for itself.
    if (most_waiting_ > 0 && items_.size() >= most_waiting_ && this_threads_queue == nullptr) {
      ++times_full_;
      room_cv_.wait(lock, [&] { return items_.size() < most_waiting_; });
    }
    items_.push_back({std::move(task), std::chrono::steady_clock::now()});
    ++pushed_;
  }
  pushed_cv_.notify_one();
}

void TaskQueue::record(const EventPointer& event, HazardClock clock) {
  const std::uint64_t number = event->record(std::move(clock));
  push([this, event, number] {
    end_at(ready_);
    event->complete(number, failure(), ready_);
  });
}

void TaskQueue::block(const EventPointer& event) {
  const std::uint64_t number = event->latest().number;
  push([this, event, number] {
    if (FailurePointer failed = event->wait(number)) keep(std::move(failed));
    end_at(number > 0 ? std::max(ready_, event->completed_at()) : ready_);
  });
}

void TaskQueue::wait() {
  {
    std::unique_lock lock(mutex_);
    FERRY_CHECK(std::this_thread::get_id() != thread_.get_id(), "a stream waits for itself");
    const auto awaited = awaited_.insert(pushed_);
    done_cv_.wait(lock, [&] { return done_ >= *awaited; });
    awaited_.erase(awaited);
  }
  if (const auto error = take_error()) std::rethrow_exception(error);
}

bool TaskQueue::idle() const {
  const std::lock_guard lock(mutex_);
  return done_ == pushed_;
}

long TaskQueue::times_full() const {
  const std::lock_guard lock(mutex_);
  return times_full_;
}

std::exception_ptr TaskQueue::take_error() {
  const std::lock_guard lock(mutex_);
  return take(std::exchange(failure_, nullptr));
}

void TaskQueue::await_work(std::unique_lock<std::mutex>& lock, const Task& on_rest) {
  const auto has_work = [&] { return closing_ || !items_.empty(); };
  if (on_rest && !pushed_cv_.wait_for(lock, kRest, has_work)) {
    lock.unlock();
    on_rest();
    lock.lock();
  }
  pushed_cv_.wait(lock, has_work);
}

void TaskQueue::run(const Task& on_start, const Task& on_rest) {
  this_threads_queue = this;
  on_start();
  std::unique_lock lock(mutex_);
  for (;;) {
    await_work(lock, on_rest);
    if (items_.empty()) return;
    Item item = std::move(items_.front());
    items_.pop_front();
    room_cv_.notify_one();
    lock.unlock();
    ready_ = std::max(ready_, item.pushed);
    ended_.reset();
    try {
      item.task();
    } catch (...) {
      auto failed = std::make_shared<Failure>();
      failed->error = std::current_exception();
      keep(std::move(failed));
    }
    ready_ = ended_.value_or(std::chrono::steady_clock::now());
    item.task = nullptr;  // what the task owned goes before the host may think it is done
    lock.lock();
    ++done_;
    // A host that woke up at every task would take its core from the next one.
    if (!awaited_.empty() && done_ >= *awaited_.begin()) done_cv_.notify_all();
  }
}

void TaskQueue::keep(FailurePointer failed) {
  const std::lock_guard lock(mutex_);
  if (!failure_ || failure_->reported) failure_ = std::move(failed);
}

FailurePointer TaskQueue::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace ferry
