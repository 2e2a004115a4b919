// Writes the plan of one schedule (stream_schedule.h), whatever passes through its devices and
// whatever stays there.
#pragma once

#include <vector>

#include "plan/plan.h"
#include "planner/costs/question.h"
#include "planner/write/builder.h"
#include "planner/write/stream_schedule.h"

namespace ferry {

/// The plan, whether or not it fits, without edges: order_accesses() (edges.h) adds them. Each
/// device's region of weights takes what its limit leaves, but at least what the largest visit
/// needs. Weights and states are at the same offsets of the same places in training and evaluation.
/// Requires: the machine has drives when the schedule uses them.
Plan write_stream_plan(const PlanQuestion& question, const Chain& chain,
                       const StreamSchedule& schedule, TaskNames names = TaskNames::given);

/// By device. Writes no task: O(visits and blocks). Requires: as write_stream_plan().
std::vector<DeviceNeed> device_needs(const PlanQuestion& question, const Chain& chain,
                                     const StreamSchedule& schedule);

}  // namespace ferry
