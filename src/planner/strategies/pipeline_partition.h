// Cuts a chain into the stages of a pipeline: even in time, as far as the devices' memory allows.
#pragma once

#include <functional>
#include <vector>

#include "planner/costs/chain.h"
#include "planner/costs/question.h"

namespace ferry {

/// What a stage of the blocks [first, end) costs by some measure; infinity where it is impossible.
using StageCost = std::function<double(int stage, int first, int end)>;

/// The contiguous cut into `stages` stages of at least one block whose costliest stage is cheapest;
/// of several the one with the least sum of squares, then with the latest cuts. Exact in the
/// costliest stage: dynamic programming, O(stages x blocks^2). Empty when every cut costs infinity.
/// Requires: 1 <= stages <= blocks.
std::vector<int> least_costliest(int blocks, int stages, const StageCost& cost);

/// Bytes that a pipeline's stage takes of its device: homes, gradient sums, the inputs of its
/// blocks for `in_flight` micro-batches, two gradients, and the kernels' workspace.
class StageMemory {
 public:
  /// All must outlive this object. The question trains.
  StageMemory(const PlanQuestion& question, const Chain& chain);

  Bytes need(int first, int end, int in_flight) const;

 private:
  const Chain& chain_;
  std::vector<Bytes> resident_;  // of the blocks before: homes and sums
};

}  // namespace ferry
