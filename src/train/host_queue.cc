#include "train/host_queue.h"

#include <chrono>
#include <utility>

namespace ferry {

void Completions::add(HostCompletion completion) {
  const std::lock_guard lock(mutex_);
  done_.push_back(std::move(completion));
  added_.notify_one();  // while nobody can take it and then destroy this
}

std::optional<HostCompletion> Completions::take(Micros patience) {
  std::unique_lock lock(mutex_);
  const auto span = std::chrono::duration<double, std::micro>(patience.count);
  if (!added_.wait_for(lock, span, [&] { return !done_.empty(); })) return std::nullopt;
  HostCompletion oldest = std::move(done_.front());
  done_.pop_front();
  return oldest;
}

HostQueue::HostQueue(Completions& completions, std::function<Micros()> now,
                     std::function<void()> on_start)
    : completions_(completions),
      now_(std::move(now)),
      thread_([this, on_start = std::move(on_start)] {
        on_start();
        serve();
      }) {}

HostQueue::~HostQueue() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void HostQueue::push(TaskRun run, std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    items_.push_back({run, std::move(work)});
  }
  changed_.notify_one();
}

void HostQueue::serve() {
  std::exception_ptr failure;
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closing_ || !items_.empty(); });
    if (items_.empty()) return;
    Item item = std::move(items_.front());
    items_.pop_front();
    lock.unlock();

    HostCompletion completion{.run = item.run, .start = now_(), .end = {}, .error = nullptr};
    try {
      if (!failure) item.work();
    } catch (...) {
      failure = std::current_exception();
    }
    completion.error = failure;
    completion.end = now_();
    completions_.add(std::move(completion));
  }
}

}  // namespace ferry
