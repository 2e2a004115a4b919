// Strategy `resident`: everything on one device.
#pragma once

#include "planner/strategies/strategy.h"

namespace ferry {

/// Everything on the first device.
StrategyAnswer plan_resident(const PlanQuestion& question, const Chain& chain);

}  // namespace ferry
