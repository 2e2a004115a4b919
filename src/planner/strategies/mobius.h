// Strategy `mobius`: stages pass through the devices, states at home on the host.
#pragma once

#include "planner/strategies/strategy.h"

namespace ferry {

StrategyAnswer plan_mobius(const PlanQuestion& question, const Chain& chain);

}  // namespace ferry
