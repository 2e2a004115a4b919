// The work of a plan's host tasks, on spans of the host's slab: loading tokens, the step's gradient
// norm and loss, the optimizer. Runs on the threads of host queues.
#pragma once

#include <optional>
#include <vector>

#include "optim/adamw.h"
#include "optim/worker_team.h"
#include "plan/plan.h"
#include "spec/layout.h"
#include "spec/model_spec.h"
#include "train/operands.h"
#include "train/places.h"
#include "train/state_pieces.h"
#include "train/step_numbers.h"

namespace ferry {

/// What a step found out. Evaluation leaves grad_norm 0.
struct StepResult {
  double loss = 0;       // mean over the step's learned tokens
  double grad_norm = 0;  // of all gradients, before clipping
  float scale = 1;       // what clipping multiplies gradients by
};

class HostMath {
 public:
  /// `clip` is the largest global norm, 0 for none. All references must outlive this object.
  HostMath(const ModelSpec& model, const Plan& plan, const Binding& binding, double clip,
           int update_threads);

  /// Writes X.m: ids, then labels.
  void load(TaskId id, const StepNumbers& numbers);

  /// Sums losses and squared norms in the plan's order and writes the gradient scale,
  /// min(1, clip / (norm + 1e-6)) as torch's clip_grad_norm_ has it.
  /// Throws Diverged (train/divergence.h) when the loss or the norm is not finite.
  StepResult clip(TaskId id, const StepNumbers& numbers);

  /// Updates block b's weights and states in place, or those of a piece. Throws Diverged naming the
  /// tensor when a weight would not be finite. One ahead of the norm keeps in O.b what it found,
  /// and leaves what is not finite to its redo.
  void update(TaskId id, const StepNumbers& numbers);
  /// Where the gradients are scaled: the same again from O.b. Throws as update() does.
  void redo(TaskId id, const StepNumbers& numbers);
  /// Puts back what the block's update ahead of the norm found. False where that update did not
  /// come to its end in `step`: then nothing is known of the block.
  bool take_back(TaskId update, int step);

 private:
  /// A tensor of the block, or a part of it.
  struct Touched {
    const ParamSpec& param;
    ElementRange range;  // of the block
    std::int64_t first;  // of the tensor
  };

  /// The elements of the block that an update or redo is for, and their tensors, in order.
  ElementRange updated_by(TaskId id) const;
  std::vector<Touched> touched_by(TaskId id) const;
  /// What the task does to them.
  std::vector<Update> updates_of(TaskId id) const;
  [[noreturn]] void refuse(const NonFinite& bad, TaskId id, const StepNumbers& numbers) const;

  const ModelSpec& model_;
  const Plan& plan_;
  const Binding& binding_;
  const double clip_;
  const IdVector<TaskId, Operands> operands_;
  const IdVector<ValueId, ElementRange> state_elements_;
  /// Of a block's update ahead of the norm that came to its end last.
  struct Ahead {
    int step = -1;
    std::optional<NonFinite> bad;
  };
  IdVector<BlockId, Ahead> ahead_;
  WorkerTeam team_;
};

}  // namespace ferry
