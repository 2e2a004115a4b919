// A question on some of its devices: a slow or a small one may cost more than it gives.
#pragma once

#include <cstddef>
#include <vector>

#include "planner/costs/question.h"

namespace ferry {

/// The question on these of its machine's devices, by position, each with its budget; a position
/// may come again. A profile that was estimated is estimated anew, since blocks take as long as on
/// the slowest device. Requires: it has a profile.
PlanQuestion with_devices(const PlanQuestion& question, const std::vector<std::size_t>& devices);

/// The question on some of its devices only: on those of each speed alone, and on the fastest, one
/// speed after the other; of all and of each of these on the largest, one size after the other.
/// None where all are alike, where the job says which devices run what, and where there is no model
/// to tell how fast they are. Requires: it has a profile.
std::vector<PlanQuestion> on_fewer_devices(const PlanQuestion& question);

}  // namespace ferry
