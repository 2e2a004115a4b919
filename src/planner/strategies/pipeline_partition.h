// How much of its device's memory a pipeline's stage takes.
#pragma once

#include <vector>

#include "planner/costs/chain.h"
#include "planner/costs/question.h"

namespace ferry {

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
