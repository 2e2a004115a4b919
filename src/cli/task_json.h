// The tasks of a timeline as JSON, as `plan --json` and `simulate --json` list them.
#pragma once

#include <nlohmann/json.hpp>

#include "exec/timeline.h"
#include "plan/plan.h"

namespace ferry {

/// One object per span, in its order: step, task, kind, resource, start and end in seconds; block,
/// its stage and micro_batch where the task has them (docs/formats/cli.md).
nlohmann::ordered_json tasks_json(const Plan& plan, const Timeline& timeline);

}  // namespace ferry
