// Slots in DRAM of what a step makes and uses up again: activations that leave their device, and
// gradient sums that wait for their updates.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "plan/plan.h"

namespace ferry {

/// The offset of an instance on the host that place_on_host() is to place.
inline constexpr Bytes kUnplaced{-1};

/// Offsets on the host from here on are relative: to where the others end.
inline constexpr Bytes kBehind{std::int64_t{1} << 60};

/// How dA.b.m, which only the stage below reads, take turns; and, by `batches`, what forwards make.
struct GradientTurns {
  Bytes slot;       // of one
  int stages = 1;   // of one micro-batch, how many are there at once
  int batches = 1;  // micro-batches of which any are there at once
};

/// Gives the host's instances at kUnplaced their slots from `first` on, and behind them those at
/// kBehind. Activations and sums have a slot each as far as the host's budget holds that. Else sums
/// lie where activations were that backward has read, if the tasks, one after another, let them: a
/// little less of what forward makes and of what comes down later is there ahead of time then.
/// Not unless the step `shares`. Requires: the plan's tasks are all there.
void place_on_host(Plan& plan, PlaceId host, Bytes first, const GradientTurns& turns, bool shares);

}  // namespace ferry
