// A plan file that a job is to run by: whatever it says, the run can do it or refuses it.
#pragma once

#include <string>

#include "plan/plan.h"
#include "planner/planner.h"

namespace ferry {

/// Throws UserError, which begins with `file`, where the plan is of another job or cannot train.
void require_same_question(const Plan& plan, const PlanQuestion& question, const std::string& file);

/// The file's plan, verified. Throws UserError too where values have other sizes than this model's,
/// lie where their elements cannot, or places are not the machine's.
Plan read_given_plan(const std::string& file, const PlanQuestion& question);

}  // namespace ferry
