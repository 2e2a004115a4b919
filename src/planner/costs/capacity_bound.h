// What a step takes at least because not everything fits on the devices.
#pragma once

#include "base/units.h"
#include "planner/costs/chain.h"
#include "planner/costs/question.h"

namespace ferry {

/// No plan that trains is faster: the least step that meets the demands of docs/planner.md, "The
/// lower bound", as all plans do. `delay` is sum_order_delay() (step_order.h).
Micros capacity_bound(const PlanQuestion& question, const Chain& chain, Micros delay);

}  // namespace ferry
