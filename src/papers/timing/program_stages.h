// The stages of a pure program, and what a report says of them.
#pragma once

#include <vector>

#include "planner/costs/question.h"
#include "planner/cuts/evaluator.h"
#include "planner/strategies/strategy.h"

namespace ferry {

/// plan.stages, or the most even cut of the profile's chain into `stages` (as many as blocks at
/// most).
std::vector<int> asked_or_even_ends(const PlanQuestion& question, int stages);

/// Figures "traffic_up_bytes" and "traffic_down_bytes" of activations and their gradients that pass
/// between stages on different devices through the host, for one step.
void add_boundary_traffic(PlanReport& report, const std::vector<StageCosts>& stages,
                          const std::vector<int>& device, int micro_batches);

}  // namespace ferry
