// The table of a job's keys, by section: what fields.h makes reading, bounds, overrides, the
// resolved job and the reference of.
#pragma once

#include <string>
#include <vector>

#include "spec/fields.h"
#include "spec/job.h"

namespace ferry {

inline constexpr double kManySteps = 1e9;

/// Every key, bound to the job's members, in the order of docs/formats/job.md.
std::vector<Field> job_fields(Job& job);

/// What `strategy` and `plan.without` may name.
std::vector<std::string> known_strategies();
std::vector<std::string> known_passes();

}  // namespace ferry
