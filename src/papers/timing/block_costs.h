// A profile's chain as Mobius's partition program sees it: one entry of costs per block, in
// microseconds and bytes, as the profile gives them and nothing added.
#pragma once

#include <vector>

#include "planner/cuts/partition.h"
#include "planner/planner.h"

namespace ferry {

/// S^e = weights (+ gradients in backward) + workspace, W^e = weights, T^e, A and A' of every
/// block. Throws UserError when the profile has no chain.
std::vector<BlockCosts> profile_costs(const Profile& profile);

/// N, M, G (the least device limit) and B (the slowest device's link, bytes per microsecond) of the
/// question, with all switches off. Throws UserError when a device's link has no rate.
EvaluatorProblem pure_problem(const PlanQuestion& question);

}  // namespace ferry
