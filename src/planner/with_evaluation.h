// Training and evaluation take turns in one memory: slots are taken once, as many as the larger
// plan has, and kernels allocate beside them, as much as either plan's. So a place needs the larger
// slots and the larger workspace together, and what outlasts a step lies where both plans expect
// it.
#pragma once

#include <variant>

#include "planner/strategies/strategy.h"

namespace ferry {

/// Two plans in one memory; they say the same workspace of each place, so each fits beside the
/// other when it is verified.
struct PlansInTurn {
  StrategyPlan training;
  Plan evaluation;
};

/// `training`, the strategy's plan for `question`, and one of the same strategy that evaluates.
/// Where they do not fit together, training is planned again in less. Or what lacks.
std::variant<PlansInTurn, Shortage> plan_in_turn(const Strategy& strategy,
                                                 const PlanQuestion& question,
                                                 StrategyPlan training);

/// The evaluation for a plan that stays as it is, within its places' budgets; or what lacks.
/// Requires: `training` was made for the question's model and machine.
std::variant<Plan, Shortage> plan_evaluation(const PlanQuestion& question, const Plan& training);

}  // namespace ferry
