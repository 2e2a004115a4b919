#include "simdev/link.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "base/check.h"

namespace ferry {

namespace {

using Clock = SharedLinks::Clock;

double seconds(Clock::duration span) { return std::chrono::duration<double>(span).count(); }

Clock::duration duration(double seconds) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(std::ceil(seconds * 1e9)));
}

}  // namespace

SharedLinks::SharedLinks(std::vector<double> capacities)
    : capacities_(std::move(capacities)), origin_(Clock::now()) {}

Clock::time_point SharedLinks::carry(const Route& route, Bytes size,
                                     const std::function<void()>& move,
                                     std::optional<Clock::time_point> ready) {
  const Clock::time_point start =
      ready.value_or(Clock::now()) + duration(route.latency.count * 1e-6);
  if (route.latency.count > 0) std::this_thread::sleep_until(start);
  if (route.rate <= 0) {
    move();
    return Clock::now();
  }

  std::unique_lock lock(mutex_);
  advance();
  const auto self = running_.insert(running_.end(), {&route, static_cast<double>(size.count)});
  share();
  if (ready) catch_up(*self, seconds(start - origin_));
  lock.unlock();
  std::exception_ptr failure;
  const Clock::time_point moving = Clock::now();
  try {
    move();
  } catch (...) {
    failure = std::current_exception();
  }
  const Clock::time_point moved = start + (Clock::now() - moving);
  lock.lock();
  for (advance(); self->left > 0 && !failure; advance()) {
    changed_.wait_until(lock, origin_ + duration(settled_ + seconds_to_next_end()));
  }
  const Clock::time_point end = std::max(moved, origin_ + duration(self->end));
  running_.erase(self);
  share();
  if (failure) std::rethrow_exception(failure);
  return end;
}

// Brings a new transfer to where it would be, had it started at `start`.
void SharedLinks::catch_up(Transfer& transfer, double start) {
  const double missed = (settled_ - start) * transfer.speed;
  if (missed <= 0) return;
  transfer.end = start + transfer.left / transfer.speed;
  transfer.left = std::max(0.0, transfer.left - missed);
  if (transfer.left <= 0) share();
}

double SharedLinks::now() const { return seconds(Clock::now() - origin_); }

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
      transfer.end = settled_ + span;
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
