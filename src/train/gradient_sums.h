// The sums of a block's gradients over a step's micro-batches, on the device that computes them.
//
// Sums are made in ascending order of micro-batches, so every strategy adds in one order and agrees
// to the last bit.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "train/step_kernels.h"

namespace ferry {

/// Enqueues on the current stream. One per backward task.
class GradientSums {
 public:
  /// `sums` are fp32, in the order of the block's parameters; `kernels`, or null, must outlive
  /// this.
  GradientSums(std::vector<at::Tensor> sums, const StepKernels* kernels);

  const std::vector<at::Tensor>& tensors() const { return sums_; }

  void zero();

  /// Adds a micro-batch's gradients, or begins with them unless `adds`, and lets go of each once it
  /// is used. `last`: squared_norm() comes next, and is cheaper for knowing it now.
  void add(std::vector<at::Tensor>& gradients, bool adds, bool last);

  /// Adds what another block has found for the first parameter.
  void add_to_first(const at::Tensor& gradient);

  /// total = the sum of the squares of all elements, in fp64. With kernels, in an order that
  /// depends on the parameters' sizes alone.
  void squared_norm(const at::Tensor& total);

 private:
  void add_one(std::size_t i, const at::Tensor& gradient, bool adds, bool last);

  std::vector<at::Tensor> sums_;
  std::vector<at::Tensor> squares_;  // of each sum, where the last addition has made them
  const StepKernels* kernels_;
};

}  // namespace ferry
