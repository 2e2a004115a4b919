// The same question on other machines and batches: what more memory, drives, devices or tokens
// would bring.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "planner/planner.h"

namespace ferry {

/// One changed question and its answer.
struct Variation {
  std::string change;  // "host: 512.0 GiB of DRAM"
  bool fits = false;
  std::string strategy;  // or the place that lacks memory, or what the job asks for in vain
  Micros step;
  std::optional<double> positions_per_second = 0;  // none: tokens are unknown
};

/// The question as it is, which `now` answers, then with half and twice its DRAM, drives, devices
/// and micro-batches, where that makes sense; each planned anew, side by side, which the listener
/// hears of. Requires: what `planner` requires, and that it may be called by several threads.
std::vector<Variation> what_if(const PlanQuestion& question, const Planned& now,
                               const Planner& planner, PhaseListener& listener);

}  // namespace ferry
