#include "model/mlp.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "base/check.h"
#include "model/fused.h"
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

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct SwiGlu : Function<SwiGlu> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate,
                            const at::Tensor& up) {
    context->save_for_backward({gate, up});
    return fused_operations()->swiglu(gate, up);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto [gate, up] =
        fused_operations()->swiglu_backward(gradients[0].contiguous(), saved[0], saved[1]);
    return {gate, up};
  }
};

bool fits_swiglu(const ModelSpec& model, const std::vector<at::Tensor>& projections) {
  return fused_operations() != nullptr && model.gated_mlp && model.activation == Activation::silu &&
         fits_fused(projections[0]) && fits_fused(projections[1]);
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
  if (fits_swiglu(model, projections)) return SwiGlu::apply(projections[0], projections[1]);
  const at::Tensor value = activate(model.activation, std::exchange(projections[0], {}));
  return model.gated_mlp ? value * projections[1] : value;
}

}  // namespace ferry
