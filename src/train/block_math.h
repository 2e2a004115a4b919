// The arithmetic of a plan's compute tasks, enqueued on the current stream of the caller's thread.
//
// Nothing here waits: operators run when the stream reaches them. A token of an MLP knows nothing
// of the others, so an MLP is called once per chunk of tokens (spec/row_chunks.h), and its kernels
// never take more memory than for one.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "model/block.h"
#include "model/head.h"
#include "plan/plan.h"
#include "spec/layout.h"
#include "spec/model_spec.h"
#include "spec/row_chunks.h"
#include "train/gradient_sums.h"
#include "train/operands.h"
#include "train/places.h"
#include "train/step_numbers.h"

namespace ferry {

class BlockMath {
 public:
  /// Requires: the plan was made for `model` and verified. All three must outlive this object.
  BlockMath(const ModelSpec& model, const Plan& plan, const Binding& binding);

  /// Enqueues a forward, backward or device update task. Requires: its stream is current. Threads:
  /// one per device, several devices at a time.
  void enqueue(TaskId id, const StepNumbers& numbers);

  /// What a forward of `task`'s block could keep of this batch, K.b.m's bytes. Runs that forward,
  /// and keeps nothing.
  Bytes saved_bytes(TaskId id, const StepNumbers& numbers) const;

 private:
  /// What the forward of a chunk left in K.b.m, from byte `begin` on.
  struct KeptChunk {
    Bytes begin;
    std::shared_ptr<SavedForward> saved;
  };
  /// That of all chunks, in order, and the bytes in all.
  struct KeptForward {
    std::vector<KeptChunk> chunks;
    Bytes bytes;
  };

  void forward(const Task& task, const Operands& parts, const StepNumbers& numbers);
  /// `slot`: bytes for K.b.m; where it is not defined they are only counted.
  KeptForward keeping_forward(const Task& task, const Operands& parts, const StepNumbers& numbers,
                              const at::Tensor& slot) const;
  void backward(const Task& task, const Operands& parts, const StepNumbers& numbers) const;
  void block_backward(const Task& task, const Operands& parts, const StepNumbers& numbers,
                      GradientSums& sums) const;
  void head_backward(const Task& task, const Operands& parts, const StepNumbers& numbers,
                     GradientSums& sums) const;
  void embedding_backward(const Task& task, const Operands& parts, const StepNumbers& numbers,
                          GradientSums& sums) const;
  void finish_gradient(const Task& task, const Operands& parts, GradientSums& sums) const;
  void update(const Task& task, const Operands& parts, const StepNumbers& numbers) const;

  std::vector<RowChunk> chunks(const Task& task) const;
  Positions positions(const Task& task, const StepNumbers& numbers) const;
  const BlockSpec& block(const Task& task) const;
  at::Tensor ids(InstanceId tokens) const;
  at::Tensor labels(InstanceId tokens) const;
  at::Tensor hidden_states(InstanceId activation) const;
  HeadInput head_input(const Task& task, const Operands& parts, const StepNumbers& numbers) const;
  GradientSums gradient_sums(const Task& task, const Operands& parts) const;
  std::vector<at::Tensor> gradients(const Task& task, InstanceId gradient,
                                    at::ScalarType type = at::kFloat) const;

  const ModelSpec& model_;
  const Plan& plan_;
  const Binding& binding_;
  const IdVector<TaskId, Operands> operands_;
  const at::ScalarType type_;                              // of weights and activations
  IdVector<BlockId, BlockLayout> layouts_;                 // of its own parameters
  IdVector<InstanceId, std::vector<at::Tensor>> weights_;  // empty for other kinds
  IdVector<PlaceId, RotaryTable> rotary_;                  // undefined for other places and models
  // By block and micro-batch, of the last forward that wrote K.b.m. One compute queue runs it and
  // the backward that reads it, so the next step's forward comes after this step's backward.
  // All are there from the start, empty, since tasks of several devices are enqueued at a time.
  std::map<std::pair<BlockId, int>, std::vector<KeptChunk>> kept_;
};

/// The parameter views of block `block_id`'s weight instance, in the order of BlockSpec::params.
std::vector<at::Tensor> weight_views(const ModelSpec& model, const Plan& plan,
                                     const Binding& binding, BlockId block_id, InstanceId weight);

}  // namespace ferry
