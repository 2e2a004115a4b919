// Strategies that give stages to devices in turn, or to every device.
#pragma once

#include "planner/strategies/strategy.h"

namespace ferry {

/// Stages in turn, each for all micro-batches (Harmony's pipeline mode).
StrategyAnswer plan_harmony_pp(const PlanQuestion& question, const Chain& chain);
/// Every device runs all stages on its share of the micro-batches (Harmony's data-parallel mode).
StrategyAnswer plan_harmony_dp(const PlanQuestion& question, const Chain& chain);
/// Stages in turn, the micro-batches in rounds (RoundPipe, section 3.2).
StrategyAnswer plan_roundpipe(const PlanQuestion& question, const Chain& chain);
/// One micro-batch at a time, updates at the end (the ZeRO-Infinity schedule).
StrategyAnswer plan_zero(const PlanQuestion& question, const Chain& chain);
/// One device, all micro-batches of a stage at once; the ablations of its update.
StrategyAnswer plan_fuyou(const PlanQuestion& question, const Chain& chain);
StrategyAnswer plan_fuyou_naive(const PlanQuestion& question, const Chain& chain);
StrategyAnswer plan_fuyou_serial(const PlanQuestion& question, const Chain& chain);

/// Strategy::same_as of those that may be another's.
const char* same_as_harmony_pp(const PlanQuestion& question);
const char* harmony_pp_on_one_device(const PlanQuestion& question);  // harmony-dp and fuyou
const char* same_as_fuyou_naive(const PlanQuestion& question);
const char* same_as_fuyou_serial(const PlanQuestion& question);

}  // namespace ferry
