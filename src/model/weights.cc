#include "model/weights.h"

#include <ATen/ATen.h>

#include "base/check.h"
#include "model/norm.h"

namespace ferry {

at::Tensor Projection::operator()(const at::Tensor& x) const {
  if (!input_first) return at::linear(x, weight, bias);
  return bias ? at::addmm(*bias, x, weight) : at::mm(x, weight);
}

ProjectionGradients projection_gradients(const Projection& projection, const at::Tensor& x,
                                         const at::Tensor& dy) {
  ProjectionGradients result;
  if (projection.input_first) {
    result.x = at::mm(dy, projection.weight.t());
    result.weights.push_back(at::mm(x.t(), dy));
  } else {
    result.x = at::mm(dy, projection.weight);
    result.weights.push_back(at::mm(dy.t(), x));
  }
  if (projection.bias) result.weights.push_back(dy.sum(0));
  return result;
}

std::size_t norm_weights(const ModelSpec& model) { return model.norm == NormKind::layer ? 2 : 1; }

const at::Tensor& WeightReader::next() {
  FERRY_CHECK(taken_ < weights_.size(), "a block got fewer weights than its kind has");
  return weights_[taken_++];
}

Projection WeightReader::projection(bool bias) {
  Projection result{.weight = next(), .bias = std::nullopt, .input_first = model_.input_first};
  if (bias) result.bias = next();
  return result;
}

at::Tensor WeightReader::norm(const at::Tensor& x) {
  const at::Tensor& weight = next();
  switch (model_.norm) {
    case NormKind::rms:
      return rms_norm(x, weight, model_.norm_epsilon);
    case NormKind::layer:
      return layer_norm(x, weight, next(), model_.norm_epsilon);
  }
  FERRY_UNREACHABLE("unknown norm");
}

}  // namespace ferry
