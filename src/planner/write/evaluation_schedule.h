// The schedule that evaluates beside a plan that trains, where weights rest on devices: it has to
// find them there.
#pragma once

#include "plan/plan.h"
#include "planner/write/stream_schedule.h"

namespace ferry {

/// The forward visits of a plan that trains, in their order and on their devices, with everything
/// at home where that plan has it. Rings have the least length.
StreamSchedule evaluation_schedule(const Plan& training);

}  // namespace ferry
