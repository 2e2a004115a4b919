// The plan that measure.h times a block with.
#pragma once

#include <map>
#include <utility>

#include "base/units.h"
#include "plan/plan.h"
#include "spec/model_spec.h"
#include "train/measure.h"

namespace ferry {

/// A plan whose tasks are run one by one, of one block of the chain: every value has its own slot
/// on one device. Of a step of two micro-batches: the first sets the gradient sum, the last adds
/// and ends it.
class BenchPlan {
 public:
  /// `saved`: what the block's forward keeps, 0 for nothing. The model must outlive the BenchPlan.
  BenchPlan(const ModelSpec& model, const MeasureRequest& request, BlockId block, Bytes saved);

  static constexpr PlaceId kDevice{0};
  static constexpr ResourceId kCompute{0};

  Plan plan;
  TaskId forward;                         // none for the head
  TaskId first_backward, last_backward;   // of a step's micro-batches
  TaskId saving_forward, saved_backward;  // none where nothing is kept; of the last micro-batch

 private:
  void add(Value value);
  void add_boundaries(const MeasureRequest& request);
  void add_states();
  void add_tasks(bool keeps);

  const ModelSpec& model_;
  const BlockId block_;
  Bytes end_;
  std::map<std::pair<ValueKind, BlockId>, InstanceId> places_;
};

}  // namespace ferry
