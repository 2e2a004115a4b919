// The edges that make a plan's slots safe on concurrent queues.
#pragma once

#include "plan/plan.h"

namespace ferry {

/// Sets `after` and `after_previous` of every task so that any two accesses to overlapping bytes,
/// one of them a write, are ordered as they stand in Plan::tasks: within the step, and from one
/// step to the next. Edges that queue order or other edges imply are left out. Requires: run one
/// after another in this order, the tasks are right.
void order_accesses(Plan& plan);

}  // namespace ferry
