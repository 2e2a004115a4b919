// Which instance plays which part in a task: found once, when a plan is bound, by kind and block.
#pragma once

#include <vector>

#include "plan/plan.h"

namespace ferry {

/// Instances by their part; none where the task has none.
struct Operands {
  InstanceId weight;           // W.b read by this block
  InstanceId tied_weight;      // W of the block that a tied head reads
  InstanceId state;            // S.b
  InstanceId gradient;         // G.b; for a backward also written
  InstanceId tied_gradient;    // the head's complete sum, added by its owner's last backward
  InstanceId tokens;           // X.m
  InstanceId input;            // A.b.m
  InstanceId output;           // A.(b+1).m, written
  InstanceId output_gradient;  // dA.(b+1).m, read
  InstanceId input_gradient;   // dA.b.m, written
  InstanceId norm;             // N.b, written by the last backward
  InstanceId loss;             // L.m, written
  InstanceId clip;             // C
  InstanceId saved;            // K.b.m; read by a backward that does not recompute
  bool accumulates = false;         // a backward that reads G.b adds to it
};

/// Requires: a plan that is well formed.
Operands operands_of(const Plan& plan, const Task& task);

/// One entry per task.
IdVector<TaskId, Operands> operands_of(const Plan& plan);

}  // namespace ferry
