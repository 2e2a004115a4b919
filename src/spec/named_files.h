// The files that a job names by its keys. That one is not there is said with where the job names
// it; what is wrong in one, with file and line of its own.
#pragma once

#include <string>

#include "spec/job.h"
#include "spec/machine.h"
#include "spec/model_spec.h"

namespace ferry {

/// What `model` names. Throws UserError. Requires: it names something.
ModelSpec named_model(const Job& job);

/// What `machine` names. Throws UserError. Requires: it names something.
Machine named_machine(const Job& job);

/// The text of the file that `plan.profile` names. Throws UserError. Requires: it names one.
std::string named_profile(const Job& job);

}  // namespace ferry
