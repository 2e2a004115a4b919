#include "optim/worker_team.h"

#include <string>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace ferry {

WorkerTeam::WorkerTeam(int threads) {
  FERRY_CHECK(threads > 0, "a team needs a thread");
  try {
    for (int i = 1; i < threads; ++i) {
      workers_.emplace_back([this](const std::stop_token& stop) { serve(stop); });
    }
  } catch (const std::system_error& error) {
    throw ResourceError("cannot start thread " + std::to_string(workers_.size() + 2) + " of " +
                        std::to_string(threads) + ": " + error.what() +
                        "; raise the limit on threads (`ulimit -u`, a container's) or on data "
                        "(`ulimit -d`), or give fewer host.cores");
  }
}

void WorkerTeam::for_each(std::size_t count, const std::function<void(std::size_t)>& work) {
  const std::lock_guard turn(turn_);
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    count_ = count;
    next_ = 0;
    busy_ = workers_.size();
    ++round_;
  }
  changed_.notify_all();
  take_part();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return busy_ == 0; });
  work_ = nullptr;
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void WorkerTeam::serve(const std::stop_token& stop) {
  for (std::size_t seen = 0;;) {
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [&] { return round_ != seen; })) return;
      seen = round_;
    }
    take_part();
    {
      const std::lock_guard lock(mutex_);
      --busy_;
    }
    changed_.notify_all();
  }
}

// work_ and count_ do not change while a round runs, so they are read without the lock.
void WorkerTeam::take_part() {
  try {
    for (std::size_t i = next_++; i < count_; i = next_++) (*work_)(i);
  } catch (...) {
    next_ = count_;
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
}

}  // namespace ferry
