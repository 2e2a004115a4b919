// Writes the plan of a streaming strategy for one schedule (stream_schedule.h).
#pragma once

#include "plan/plan.h"
#include "planner/costs/question.h"
#include "planner/write/stream_schedule.h"

namespace ferry {

/// The plan, whether or not it fits, without edges: order_accesses() (edges.h) adds them. Each
/// device's region of weights takes what its limit leaves, but at least what the largest visit
/// needs. Requires: the machine has drives when
/// the schedule uses them.
Plan write_stream_plan(const PlanQuestion& question, const Chain& chain,
                       const StreamSchedule& schedule);

}  // namespace ferry
