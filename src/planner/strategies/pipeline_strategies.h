// Strategies whose stages stay on their devices while micro-batches pass through them.
#pragma once

#include "planner/strategies/strategy.h"

namespace ferry {

/// All micro-batches forward, then all backward.
StrategyAnswer plan_gpipe(const PlanQuestion& question, const Chain& chain);
/// One forward, one backward.
StrategyAnswer plan_one_f_one_b(const PlanQuestion& question, const Chain& chain);
/// Likewise with several stages per device.
StrategyAnswer plan_interleaved(const PlanQuestion& question, const Chain& chain);
/// 1f1b where a device may have blocks that are not neighbours, as Mixed-pipe assigns them.
StrategyAnswer plan_mixed_pipe(const PlanQuestion& question, const Chain& chain);

}  // namespace ferry
