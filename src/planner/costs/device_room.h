// How much may rest on devices beside what their tasks need.
#pragma once

#include "planner/costs/chain.h"
#include "planner/costs/question.h"

namespace ferry {

/// Bytes of W, S and sums that all devices can hold together, or more. A device holds those of
/// blocks that run there, beside the workspace of the one that takes most, and every block runs
/// somewhere.
double room_on_devices(const PlanQuestion& question, const Chain& chain);

}  // namespace ferry
