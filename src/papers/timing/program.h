// What a paper's program answers: a plan that only tells time, or what it lacks.
#pragma once

#include <string>
#include <variant>

#include "exec/simulator.h"
#include "plan/plan.h"
#include "planner/strategies/strategy.h"

namespace ferry {

struct Program {
  Plan plan;  // timing-only
  Simulation prediction;
  std::string remark;  // how it was chosen, in a few words
  PlanReport report = {};
  Micros lower_bound = {};  // under the program's own cost model
};

using ProgramAnswer = std::variant<Program, Shortage>;

}  // namespace ferry
