// How fast a step could be at best: what schedules are measured against. Proofs: docs/planner.md.
#pragma once

#include "base/units.h"
#include "planner/costs/chain.h"
#include "planner/costs/question.h"

namespace ferry {

/// No schedule of any strategy is faster on this machine, profile and batch.
Micros lower_bound(const PlanQuestion& question, const Chain& chain);

/// The same of plans that clip the way that the question says: PlanQuestion::norm_first.
Micros bound_of_one_way(const PlanQuestion& question, const Chain& chain);

/// The same of plans with everything on the first device.
Micros resident_lower_bound(const PlanQuestion& question, const Chain& chain);

/// The same of plans whose stages stay on their devices, however they are cut and ordered.
Micros pipeline_lower_bound(const PlanQuestion& question, const Chain& chain);

/// The same of plans whose states rest on the host or the drives and are updated by the host.
Micros streaming_lower_bound(const PlanQuestion& question, const Chain& chain);

}  // namespace ferry
