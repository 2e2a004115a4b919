// Rule 0 of verify(): the parts of a plan fit together, and every task has the shape of its kind.
#pragma once

#include <optional>
#include <string>

#include "plan/plan.h"

namespace ferry {

/// Says what is malformed first, in the order of the text form; nothing when the plan is well
/// formed. What passes can be printed, replayed and simulated without overflow.
std::optional<std::string> find_malformed(const Plan& plan);

}  // namespace ferry
