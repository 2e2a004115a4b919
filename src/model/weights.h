// A block's weights as the parts that they belong to: projections and norms, whichever way the
// checkpoint stores them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "spec/model_spec.h"

namespace ferry {

/// A linear layer.
struct Projection {
  at::Tensor weight;
  std::optional<at::Tensor> bias;
  bool input_first = false;  // weight is [in, out], else [out, in]

  /// [rows, in] -> [rows, out]
  at::Tensor operator()(const at::Tensor& x) const;
};

/// The gradients of y = projection(x) for x and for the projection's weight and bias.
struct ProjectionGradients {
  at::Tensor x;
  std::vector<at::Tensor> weights;
};

/// Takes them without a graph, given dy [rows, out].
ProjectionGradients projection_gradients(const Projection& projection, const at::Tensor& x,
                                         const at::Tensor& dy);

/// How many weights a norm before or between blocks has.
std::size_t norm_weights(const ModelSpec& model);

/// Reads weights in the order of block.params, part by part.
/// Lifetime: not longer than the model and the weights.
class WeightReader {
 public:
  WeightReader(const ModelSpec& model, std::span<const at::Tensor> weights)
      : model_(model), weights_(weights) {}

  const at::Tensor& next();
  Projection projection(bool bias);
  /// The model's norm of x, with the next weights.
  at::Tensor norm(const at::Tensor& x);

 private:
  const ModelSpec& model_;
  std::span<const at::Tensor> weights_;
  std::size_t taken_ = 0;
};

}  // namespace ferry
