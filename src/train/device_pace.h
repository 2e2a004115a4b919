// How much of their planned times a plan's devices do at once, and how late they begin tasks, by
// what was seen of them.
#pragma once

#include <vector>

#include "base/units.h"
#include "exec/timeline.h"
#include "plan/plan.h"

namespace ferry {

/// What devices compute per time, in devices for which tasks take what the plan says: 1.7 when two
/// do together what the plan gives 1.7 of them for. Of the time in which `least` of them or more
/// compute and no task of the host takes what computing draws on by the plan, as updates do on
/// simulated devices, behind the steps before `first_step`; the median over five parts of it: a bad
/// moment of a shared machine meets one. 0: there is no such time.
double computing_rate(const Plan& plan, const std::vector<Span>& spans, int first_step, int least);

/// How much later than they could devices begin to compute.
struct StartingDelays {
  Micros task;  // behind the end of another task that computes
  Micros copy;  // behind the end of a copy, and that copy behind what it waited for
};

/// Medians over the tasks behind the steps before `first_step`. 0: there are none, or few.
StartingDelays starting_delays(const Plan& plan, const std::vector<Span>& spans, int first_step);

}  // namespace ferry
