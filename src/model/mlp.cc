#include "model/mlp.h"

#include <ATen/ATen.h>

#include <utility>

#include "base/check.h"
#include "model/weights.h"

namespace ferry {
namespace {

at::Tensor activate(Activation activation, const at::Tensor& x) {
  switch (activation) {
    case Activation::gelu_tanh:
      return at::gelu(x, "tanh");
    case Activation::gelu:
      return at::gelu(x);
    case Activation::relu:
      return at::relu(x);
    case Activation::silu:
      return at::silu(x);
  }
  FERRY_UNREACHABLE("unknown activation");
}

}  // namespace

std::vector<at::Tensor> project_mlp(const ModelSpec& model, const at::Tensor& normed,
                                    std::span<const at::Tensor> weights) {
  WeightReader reader(model, weights);
  const at::Tensor x = normed.view({-1, model.hidden});
  std::vector<at::Tensor> projections{reader.projection(model.mlp_bias)(x)};
  if (model.gated_mlp) projections.push_back(reader.projection(model.mlp_bias)(x));
  return projections;
}

at::Tensor join_mlp(const ModelSpec& model, std::vector<at::Tensor> projections) {
  const at::Tensor value = activate(model.activation, std::exchange(projections[0], {}));
  return model.gated_mlp ? value * projections[1] : value;
}

}  // namespace ferry
