#include "simdev/link.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "base/check.h"

namespace ferry {

using Clock = std::chrono::steady_clock;

SharedLinks::SharedLinks(std::vector<double> capacities)
    : capacities_(std::move(capacities)), origin_(Clock::now()) {}

void SharedLinks::carry(const Route& route, Bytes size, const std::function<void()>& move) {
  if (route.latency.count > 0) {
    std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(route.latency.count));
  }
  if (route.rate <= 0) return move();

  std::unique_lock lock(mutex_);
  advance();
  const auto self = running_.insert(running_.end(), {&route, static_cast<double>(size.count)});
  share();
  lock.unlock();
  std::exception_ptr failure;
  try {
    move();
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  for (advance(); self->left > 0 && !failure; advance()) {
    const auto end = settled_ + seconds_to_next_end();
    const auto nanoseconds = static_cast<std::int64_t>(std::ceil(end * 1e9));
    changed_.wait_until(lock, origin_ + std::chrono::nanoseconds(nanoseconds));
  }
  running_.erase(self);
  share();
  if (failure) std::rethrow_exception(failure);
}

double SharedLinks::now() const {
  return std::chrono::duration<double>(Clock::now() - origin_).count();
}

// Transfers may end between two calls, and what they leave speeds up the others from then on: the
// time is walked from end to end.
void SharedLinks::advance() {
  const double until = now();
  while (settled_ < until) {
    const double next_end = seconds_to_next_end();
    const double span = std::min(next_end, until - settled_);
    const bool ends = next_end <= until - settled_;
    for (Transfer& transfer : running_) {
      if (transfer.left <= 0) continue;
      const bool done = ends && transfer.left <= transfer.speed * span * (1 + 1e-12);
      transfer.left = done ? 0 : transfer.left - transfer.speed * span;
    }
    settled_ = ends ? settled_ + span : until;
    if (ends) share();
  }
}

void SharedLinks::share() {
  std::vector<Activity> activities;
  std::vector<Transfer*> drawing;
  for (Transfer& transfer : running_) {
    if (transfer.left <= 0) continue;
    activities.push_back({1.0 / transfer.route->rate, transfer.route->draws});
    drawing.push_back(&transfer);
  }
  const std::vector<double> speeds = fair_speeds(activities, capacities_);
  for (std::size_t i = 0; i < drawing.size(); ++i) {
    drawing[i]->speed = speeds[i] * drawing[i]->route->rate;
    FERRY_CHECK(drawing[i]->speed > 0, "a link without capacity never ends a copy");
  }
  changed_.notify_all();
}

double SharedLinks::seconds_to_next_end() const {
  double seconds = std::numeric_limits<double>::infinity();
  for (const Transfer& transfer : running_) {
    if (transfer.left > 0) seconds = std::min(seconds, transfer.left / transfer.speed);
  }
  return seconds;
}

}  // namespace ferry
