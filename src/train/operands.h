// Which instance plays which part in a task: found once, when a plan is bound, by kind and block.
#pragma once

#include <vector>

#include "plan/plan.h"

namespace ferry {

/// Instances by their part; -1 where the task has none.
struct Operands {
  InstanceId weight = -1;           // W.b read by this block
  InstanceId tied_weight = -1;      // W of the block that a tied head reads
  InstanceId state = -1;            // S.b
  InstanceId gradient = -1;         // G.b; for a backward also written
  InstanceId tied_gradient = -1;    // the head's complete sum, added by its owner's last backward
  InstanceId tokens = -1;           // X.m
  InstanceId input = -1;            // A.b.m
  InstanceId output = -1;           // A.(b+1).m, written
  InstanceId output_gradient = -1;  // dA.(b+1).m, read
  InstanceId input_gradient = -1;   // dA.b.m, written
  InstanceId norm = -1;             // N.b, written by the last backward
  InstanceId loss = -1;             // L.m, written
  InstanceId clip = -1;             // C
  InstanceId saved = -1;            // K.b.m; read by a backward that does not recompute
  bool accumulates = false;         // a backward that reads G.b adds to it
};

/// Requires: a plan that is well formed.
Operands operands_of(const Plan& plan, const Task& task);

/// One entry per task.
std::vector<Operands> operands_of(const Plan& plan);

}  // namespace ferry
