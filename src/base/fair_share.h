// How running activities share rates: PCIe links, a root complex's total, host cores.
//
// Weighted max-min fairness by progressive filling: every activity's speed grows in proportion to
// its weight until it runs at full speed (1.0) or one of the pools it draws on is used up. The
// simulator (virtual time) and the simulated accelerator (real time) use the same function, so a
// prediction differs from a throttled run only by what the machine does.
#pragma once

#include <span>
#include <vector>

#include "base/ids.h"

namespace ferry {

/// A rate that running activities share.
using PoolId = Id<struct PoolTag>;

/// What one activity takes from one pool when it runs at full speed, in the pool's unit per second.
struct Draw {
  PoolId pool{0};
  double rate = 0;

  friend bool operator==(const Draw&, const Draw&) = default;
};

/// One running activity. `draws` must stay valid during the call. Requires: weight > 0.
struct Activity {
  double weight = 1;
  std::span<const Draw> draws;
};

/// Returns each activity's speed as a fraction of full speed, in [0, 1]: no pool is drawn beyond
/// its capacity, and no activity's speed can grow without slowing one that is no faster per weight.
/// Requires: every Draw::pool indexes `capacities`. Pure; O(activities x pools used) per filling
/// round.
std::vector<double> fair_speeds(std::span<const Activity> activities,
                                std::span<const double> capacities);

}  // namespace ferry
