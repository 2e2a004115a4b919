// The table of strategies.
#pragma once

#include <span>

#include "planner/strategies/strategy.h"

namespace ferry {

/// All of them, in order of traffic: of equally fast plans the earlier strategy's is taken.
std::span<const Strategy> strategies();

}  // namespace ferry
