// In how many rounds a step's micro-batches pass (PlanQuestion::rounds): more rounds bring every
// weight and sum up and down more often, and have fewer inputs in DRAM at once.
#pragma once

#include <vector>

#include "base/units.h"
#include "planner/costs/chain.h"
#include "planner/costs/question.h"

namespace ferry {

/// The most rounds with which the links take no longer for what each of them moves than the
/// devices for its computation; at least 1, at most one per micro-batch.
int most_rounds_hidden(const PlanQuestion& question, const Chain& chain);

/// Numbers of rounds to choose from: 2, 4, 8, ... below `most`, and that; none where it is 1.
std::vector<int> round_counts(int most);

}  // namespace ferry
