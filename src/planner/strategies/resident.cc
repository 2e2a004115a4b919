// Strategy `resident`: weights, states, gradients and one micro-batch's activations stay on the
// first device.
#include "planner/strategies/resident.h"

#include "planner/strategies/passes.h"
#include "planner/write/activation_policy.h"
#include "planner/write/edges.h"
#include "planner/write/stream_plan.h"
#include "spec/pass_names.h"
#include "spec/strategy_names.h"

namespace ferry {
namespace {

constexpr int kDevice = 0;

/// One visit: every micro-batch through all blocks and back. Nothing is copied but tokens, norms,
/// losses and the gradient scale.
Plan resident_plan(const PlanQuestion& question, const Chain& chain,
                   const ActivationPolicies& policies) {
  const bool trains = question.mode == PlanMode::train;
  StreamSchedule schedule;
  schedule.strategy = strategy_name::kResident;
  schedule.visits = {{trains ? Direction::fused : Direction::forward, kDevice, 0,
                      static_cast<int>(chain.size()), 0, question.micro_batches}};
  schedule.homes.resize(chain.size(), kAllOnDevice);
  schedule.token_slots = 2;  // the next micro-batch's tokens arrive while this one computes
  if (trains) schedule.policies = policies;
  return write_stream_plan(question, chain, schedule);
}

// Whatever is kept shortens the step by its recompute, so as much as fits is kept.
ActivationPolicies fastest_policies(const Chain& chain, const Plan& recomputing) {
  const KeptSlots one_each = one_slot_each(chain);
  const std::vector<int> on_it(chain.size(), 0);
  return keep_what_fits(chain, by_device_density(chain, one_each, 1), one_each, on_it,
                        rooms_of(recomputing));
}

}  // namespace

StrategyAnswer plan_resident(const PlanQuestion& question, const Chain& chain) {
  const bool keeps_all = question.options.activations == ActivationRule::keep;
  const ActivationPolicies asked =
      keeps_all ? keep_all(chain, one_slot_each(chain)) : ActivationPolicies{};
  Plan plan = resident_plan(question, chain, asked);
  std::vector<Shortage> lacking = shortages(plan);
  if (!lacking.empty()) return std::move(lacking.front());
  if (question.options.activations == ActivationRule::automatic &&
      Passes(question).has(pass_name::kActivations)) {
    const ActivationPolicies policies = fastest_policies(chain, plan);
    if (saves_any(policies)) plan = resident_plan(question, chain, policies);
  }
  order_accesses(plan);
  Simulation prediction = simulate(plan);
  StrategyPlan answer{std::move(plan), std::move(prediction), "all on the first device"};
  answer.report.stages = {
      {Direction::both, question.machine.devices[kDevice].name, 0, static_cast<int>(chain.size())}};
  answer.report.mapping = {kDevice};
  return answer;
}

}  // namespace ferry
