// What a strategy's search is made of. A draft is a schedule with its plan and its simulated time;
// a pass is a named, timed function from a draft to one that is no slower. A job can switch passes
// off by name (plan.without).
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "exec/simulator.h"
#include "plan/plan.h"
#include "planner/costs/question.h"
#include "planner/strategies/strategy.h"

namespace ferry {

template <typename Schedule>
struct Draft {
  Schedule schedule;
  Plan plan;
  Simulation prediction;

  Micros step() const { return prediction.step; }
  bool fits() const { return true; }  // on the devices as they were asked for
};

/// A step that nothing takes as long as.
inline constexpr Micros kNever{std::numeric_limits<double>::infinity()};

/// The other where that is faster.
template <typename Draft>
Draft faster(Draft draft, std::optional<Draft> other) {
  return other && other->step() < draft.step() ? std::move(*other) : std::move(draft);
}

/// A limit to which what is as fast keeps, too, where limits ask for less.
inline Micros as_fast_as(Micros step) { return {std::nextafter(step.count, kNever.count)}; }

/// The fastest of the drafts that were offered; of equally fast ones those that came first.
template <typename Draft>
class Drafts {
 public:
  /// Keeps the `most` fastest.
  explicit Drafts(std::size_t most) : most_(most) {}

  void offer(Draft draft) {
    const auto after = std::ranges::upper_bound(drafts_, draft.step(), {}, &Draft::step);
    drafts_.insert(after, std::move(draft));
    if (drafts_.size() > most_) drafts_.pop_back();
  }

  bool empty() const { return drafts_.empty(); }

  /// Requires: one was offered.
  const Draft& best() const {
    FERRY_CHECK(!drafts_.empty(), "a draft was offered");
    return drafts_.front();
  }

  /// All that are kept, the fastest first; none are left here.
  std::vector<Draft> take() { return std::exchange(drafts_, {}); }

 private:
  std::size_t most_;
  std::vector<Draft> drafts_;  // the fastest first
};

/// Runs passes and notes what they took, and what they gained of what may be the answer: a search
/// may go through drafts that the devices do not hold, and find on the way one that they do.
class Passes {
 public:
  explicit Passes(const PlanQuestion& question);

  /// False when the job switches the pass off.
  bool has(const char* name) const;

  /// pass(draft), or the draft as it is when the pass is switched off.
  template <typename Draft, typename Function>
  Draft run(const char* name, Draft draft, Function pass) {
    if (draft.fits()) found(draft.step());
    if (reports_.empty()) note(kSchedules, started_, fastest_);
    if (!has(name)) return draft;
    const Micros given = draft.step();
    const Micros before = draft.fits() ? given : fastest_;
    found_ = draft.fits() ? given : kNever;
    const auto start = Clock::now();
    draft = pass(std::move(draft));
    FERRY_CHECK(draft.step() <= given, "a pass makes no draft slower");
    if (draft.fits()) found(draft.step());
    note(name, start, before);
    return draft;
  }

  /// A draft that may be the answer: the devices hold it as they were asked for.
  void found(Micros step);

  /// In the order of their first runs; before them what the strategy did to have a first draft.
  const std::vector<PassReport>& reports() const { return reports_; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr const char* kSchedules = "schedules";

  void note(const char* name, Clock::time_point start, Micros before);

  const Clock::time_point started_ = Clock::now();
  std::vector<std::string> without_;
  std::vector<PassReport> reports_;
  Micros fastest_ = kNever;  // of what was found
  Micros found_ = kNever;    // likewise, since the run in progress began
};

}  // namespace ferry
