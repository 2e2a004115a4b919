// How fast any partition of a chain could be by the evaluator, without solving anything:
// O(layers^2) at most, and never above the optimum of the mixed-integer program. The proofs are in
// the .cc file.
#pragma once

#include <vector>

#include "planner/cuts/evaluator.h"

namespace ferry {

/// A bound on every partition into exactly `stages` stages. Requires: 1 <= stages <= blocks.
double stage_count_lower_bound(const EvaluatorProblem& problem,
                               const std::vector<StageCosts>& blocks, int stages);

/// A bound on every partition: the least of stage_count_lower_bound() over the stage counts for
/// which memory suffices; 0 when a block fits nowhere.
double partition_lower_bound(const EvaluatorProblem& problem,
                             const std::vector<StageCosts>& blocks);

}  // namespace ferry
