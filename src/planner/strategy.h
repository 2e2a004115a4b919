// What a strategy answers: a timed plan, or what it lacks. Used by planner.cc; one file per
// strategy implements its function.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "exec/simulator.h"
#include "plan/plan.h"
#include "planner/chain.h"
#include "planner/planner.h"

namespace ferry {

struct StrategyPlan {
  Plan plan;
  Simulation prediction;
  std::string remark;  // how it was chosen, in a few words
  PlanReport report = {};
  Micros lower_bound = {};  // of a pure program: its own; else the strategy's function gives it
};

/// The place that lacks most for the strategy's thriftiest plan.
struct Shortage {
  std::string place;
  PlaceKind kind = PlaceKind::device;
  Bytes need;
  Bytes have;
  std::vector<std::pair<std::string, Bytes>> breakdown;
};

using StrategyAnswer = std::variant<StrategyPlan, Shortage>;

/// One strategy. A null function: the strategy has no such form.
struct Strategy {
  const char* name;
  StrategyAnswer (*plan)(const PlanQuestion&, const Chain&);  // a plan that can train
  /// The paper's program alone (PlanJob::pure): a plan that only tells time. The question may be
  /// without a model; programs/block_costs.h reads its profile.
  StrategyAnswer (*program)(const PlanQuestion&);
  Micros (*lower_bound)(const PlanQuestion&, const Chain&);  // with `plan`
};

/// All of them, in order of traffic: of equally fast plans the earlier strategy's is taken.
std::span<const Strategy> strategies();

/// Everything on the first device (resident.cc).
StrategyAnswer plan_resident(const PlanQuestion& question, const Chain& chain);

/// Stages stay on their devices and micro-batches pass through them: all forward, then all backward
/// (gpipe); one forward, one backward (1f1b); likewise with several stages per device (interleaved)
/// (pipeline_strategies.cc).
StrategyAnswer plan_gpipe(const PlanQuestion& question, const Chain& chain);
StrategyAnswer plan_one_f_one_b(const PlanQuestion& question, const Chain& chain);
StrategyAnswer plan_interleaved(const PlanQuestion& question, const Chain& chain);
/// 1f1b where a device may have blocks that are not neighbours, as Mixed-pipe assigns them.
StrategyAnswer plan_mixed_pipe(const PlanQuestion& question, const Chain& chain);

/// Stages pass through the devices, states at home on the host (mobius.cc).
StrategyAnswer plan_mobius(const PlanQuestion& question, const Chain& chain);

/// Stages in turn, or on every device (dispatched.cc).
StrategyAnswer plan_harmony_pp(const PlanQuestion& question, const Chain& chain);
StrategyAnswer plan_harmony_dp(const PlanQuestion& question, const Chain& chain);
StrategyAnswer plan_roundpipe(const PlanQuestion& question, const Chain& chain);
StrategyAnswer plan_zero(const PlanQuestion& question, const Chain& chain);
StrategyAnswer plan_fuyou(const PlanQuestion& question, const Chain& chain);
StrategyAnswer plan_fuyou_naive(const PlanQuestion& question, const Chain& chain);
StrategyAnswer plan_fuyou_serial(const PlanQuestion& question, const Chain& chain);

/// The places beyond their limits, with what they hold by kind of value; the worst first.
std::vector<Shortage> shortages(const Plan& plan);

}  // namespace ferry
