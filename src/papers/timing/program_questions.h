// Questions of pure programs for tables and tests: profiles by hand, machines by a few words.
#pragma once

#include <string>
#include <vector>

#include "planner/planner.h"

namespace ferry {

/// `blocks` equal blocks of `forward` and `backward` microseconds and no bytes.
Profile equal_profile(int blocks, double forward, double backward);

/// A pure question of the strategy on `devices` devices whose links move 1 byte per microsecond.
PlanQuestion pure_question(const std::string& strategy, int devices, int micro_batches,
                           Profile profile);

}  // namespace ferry
