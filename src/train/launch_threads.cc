#include "train/launch_threads.h"

#include <algorithm>
#include <utility>

namespace ferry {

LaunchThreads::LaunchThreads(Completions& completions, std::function<Micros()> now)
    : completions_(completions), now_(std::move(now)) {}

int LaunchThreads::add(std::function<void()> on_start) {
  threads_.push_back(std::make_unique<HostQueue>(completions_, now_, std::move(on_start)));
  return static_cast<int>(threads_.size()) - 1;
}

void LaunchThreads::push(int thread, TaskRun run, std::vector<TaskRun> after,
                         std::function<void()> launch) {
  {
    const std::lock_guard lock(mutex_);
    awaited_.insert(run);
  }
  threads_.at(static_cast<std::size_t>(thread))
      ->push(run, [this, run, after = std::move(after), launch = std::move(launch)] {
        wait_for(after);
        try {
          launch();
        } catch (...) {
          note_failure(std::current_exception());
          throw;
        }
        note_launched(run);
      });
}

/// Throws what failed meanwhile, on whatever thread.
void LaunchThreads::wait_for(const std::vector<TaskRun>& after) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return failure_ ||
           std::ranges::none_of(after, [&](TaskRun run) { return awaited_.contains(run); });
  });
  if (failure_) std::rethrow_exception(failure_);
}

void LaunchThreads::note_launched(TaskRun run) {
  {
    const std::lock_guard lock(mutex_);
    awaited_.erase(run);
  }
  changed_.notify_all();
}

void LaunchThreads::note_failure(std::exception_ptr failure) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(failure);
  }
  changed_.notify_all();
}

}  // namespace ferry
