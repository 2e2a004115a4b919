// Why a compute queue had nothing to do: what its tasks waited for, followed back through a
// timeline.
#pragma once

#include "exec/timeline.h"
#include "plan/plan.h"

namespace ferry {

/// Time in which a compute queue stood still, by what it waited for. A task's wait is followed back
/// from its start: it ends with whatever ended last of all that had to come first, that with what
/// it had waited for, and so on, until the queue's last task before.
struct StallCauses {
  Micros copies;   // between the host and devices, or devices
  Micros drives;   // between DRAM and drives
  Micros host;     // loading tokens, norms, updates on the host
  Micros devices;  // what other queues compute
  Micros other;    // nothing that the plan knows of: enqueueing, and the gaps between

  Micros total() const { return copies + drives + host + devices + other; }
};

/// Of the tasks of `step` on `queue`. The timeline should have the step before as well; what is not
/// in it counts as other. O(spans + tasks).
StallCauses stall_causes(const Plan& plan, const Timeline& timeline, ResourceId queue, int step);

}  // namespace ferry
