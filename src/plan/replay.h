// Rules 2, 3, 5 (sums) and 6 of verify(): a plan's steps replayed in one order that it allows,
// with the content of every byte and the clocks of every task.
//
// One order is enough: when rule 3 holds, accesses that conflict are ordered, so every other order
// the driver may choose finds the same contents.
#pragma once

#include "plan/findings.h"
#include "plan/order.h"
#include "plan/plan.h"

namespace ferry {

/// Replays two steps, and one more per step of declared staleness, and reports what breaks a rule.
/// Requires: the plan is well formed and `order` is its order, without a cycle.
void replay(const Plan& plan, const StepOrder& order, Findings& findings);

}  // namespace ferry
