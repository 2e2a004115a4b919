// How fast any plan of a strategy can be, whatever its schedule. Derived in docs/planner.md.
#pragma once

#include "base/units.h"
#include "planner/chain.h"
#include "planner/planner.h"

namespace ferry {

/// No `resident` plan of the question is faster: all its work on one device.
Micros resident_lower_bound(const PlanQuestion& question, const Chain& chain);

/// No plan whose stages stay on their devices is faster, however it is cut and ordered: all work on
/// all devices, one block's work on its device, the way of one micro-batch there and back.
Micros pipeline_lower_bound(const PlanQuestion& question, const Chain& chain);

/// No `mobius` plan is faster: compute, host cores, links, updates, one micro-batch's way.
Micros mobius_lower_bound(const PlanQuestion& question, const Chain& chain);

}  // namespace ferry
