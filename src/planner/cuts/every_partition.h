// All partitions of a chain into one number of stages, each evaluated: the end to fall back on
// where they are few and the mixed-integer program has not proven the fastest.
#pragma once

#include <optional>
#include <vector>

#include "planner/cuts/evaluator.h"
#include "planner/cuts/partition.h"

namespace ferry {

/// How many partitions into exactly `stages` stages there are. Requires: 1 <= stages <= blocks.
double partition_count(int blocks, int stages);

/// The fastest of them; of equally fast ones that with the earliest cuts; nothing when none fits.
/// O(partition_count() x stages), about half a microsecond each for 8 stages.
std::optional<Partition> fastest_partition(const EvaluatorProblem& problem,
                                           const std::vector<BlockCosts>& blocks, int stages);

}  // namespace ferry
