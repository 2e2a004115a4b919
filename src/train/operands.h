// Which instance plays which part in a task: found once, when a plan is bound, by the task's
// signature.
#pragma once

#include <array>

#include "plan/plan.h"
#include "plan/task_signature.h"

namespace ferry {

/// Instances by their part; none where the task has none. A clip's losses and norms are many: it
/// goes through its reads.
struct Operands {
  std::array<InstanceId, kParts> instances;
  bool accumulates = false;  // a backward that reads G.b adds to it

  InstanceId operator[](Part part) const { return instances[to_index(part)]; }
};

/// Requires: a plan that is well formed.
IdVector<TaskId, Operands> operands_of(const Plan& plan);

}  // namespace ferry
