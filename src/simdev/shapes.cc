#include "simdev/shapes.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/result_type.h>
#include <c10/core/WrapDimMinimal.h>

#include <array>
#include <unordered_map>

namespace ferry {
namespace {

using at::Tensor;
using Inputs = std::vector<c10::IValue>;
using Outputs = std::vector<Tensor>;

Tensor meta(const std::vector<std::int64_t>& sizes, at::ScalarType type) {
  return at::detail::empty_meta(sizes, type);
}

Tensor meta_like(const Tensor& tensor) { return meta(tensor.sizes().vec(), tensor.scalar_type()); }

// (weight [V, h], indices, ...) -> [indices..., h]
Outputs embedding(const Inputs& in) {
  auto sizes = in[1].toTensor().sizes().vec();
  sizes.push_back(in[0].toTensor().size(1));
  return {meta(sizes, in[0].toTensor().scalar_type())};
}

// (grad [..., h], indices, V, ...) -> [V, h]
Outputs embedding_dense_backward(const Inputs& in) {
  const Tensor& grad = in[0].toTensor();
  return {meta({in[2].toInt(), grad.size(-1)}, grad.scalar_type())};
}

// (x, normalized_shape, weight, bias, eps) -> y, mean, rstd; fp32 statistics with fp32 weights
Outputs native_layer_norm(const Inputs& in) {
  const Tensor& x = in[0].toTensor();
  auto sizes = x.sizes().vec();
  const std::size_t normalized = in[1].toIntVector().size();
  for (std::size_t i = sizes.size() - normalized; i < sizes.size(); ++i) sizes[i] = 1;
  const bool mixed = in[2].isTensor() && in[2].toTensor().defined() &&
                     in[2].toTensor().scalar_type() == at::kFloat;
  const auto type = mixed ? at::kFloat : x.scalar_type();
  return {meta_like(x), meta(sizes, type), meta(sizes, type)};
}

// (dy, x, normalized_shape, mean, rstd, weight, bias, mask) -> dx, dweight, dbias
Outputs native_layer_norm_backward(const Inputs& in) {
  const auto mask = in[7].toBoolList();
  const std::array<const c10::IValue*, 3> like = {&in[1], &in[5], &in[6]};
  Outputs outputs(3);
  for (std::size_t i = 0; i < 3; ++i) {
    const bool present = like[i]->isTensor() && like[i]->toTensor().defined();
    if (mask[i] && present) outputs[i] = meta_like(like[i]->toTensor());
  }
  return outputs;
}

// Attention's CPU kernel keeps [batch, time, heads, head_dim] in memory, whatever it is called.
Tensor time_major_like(const Tensor& x) {
  return meta({x.size(0), x.size(2), x.size(1), x.size(3)}, x.scalar_type()).transpose(1, 2);
}

// (q [b, heads, t, d], k, v, ...) -> out, logsumexp [b, heads, t]
Outputs flash_attention(const Inputs& in) {
  const Tensor& q = in[0].toTensor();
  const Tensor logsumexp = meta({q.size(0), q.size(2), q.size(1)}, at::kFloat).transpose(1, 2);
  return {time_major_like(q), logsumexp};
}

// (dout, q, k, v, ...) -> dq, dk, dv
Outputs flash_attention_backward(const Inputs& in) {
  return {time_major_like(in[1].toTensor()), time_major_like(in[2].toTensor()),
          time_major_like(in[3].toTensor())};
}

Outputs same_shape(const Inputs& in) { return {meta_like(in[0].toTensor())}; }

Outputs same_shape_bool(const Inputs& in) {
  return {meta(in[0].toTensor().sizes().vec(), at::kBool)};
}

Outputs one_element(const Inputs& in) { return {meta({}, in[0].toTensor().scalar_type())}; }

Outputs broadcast(const Inputs& in) {
  const Tensor &a = in[0].toTensor(), &b = in[1].toTensor();
  return {meta(at::infer_size(a.sizes(), b.sizes()), at::result_type(a, b))};
}

// (condition, a, b) -> all three broadcast
Outputs where(const Inputs& in) {
  const Tensor &a = in[1].toTensor(), &b = in[2].toTensor();
  const auto sizes = at::infer_size(a.sizes(), b.sizes());
  return {meta(at::infer_size(in[0].toTensor().sizes(), sizes), at::result_type(a, b))};
}

// (x, dim, index) -> x with as many entries in dim as index has
Outputs index_select(const Inputs& in) {
  const Tensor& x = in[0].toTensor();
  auto sizes = x.sizes().vec();
  if (!sizes.empty()) {
    const auto dim = c10::maybe_wrap_dim(in[1].toInt(), x.dim());
    sizes[static_cast<std::size_t>(dim)] = in[2].toTensor().numel();
  }
  return {meta(sizes, x.scalar_type())};
}

}  // namespace

std::optional<Outputs> output_shapes(const std::string& name, const Inputs& inputs) {
  static const std::unordered_map<std::string, Outputs (*)(const Inputs&)> kTable = {
      {"aten::embedding", embedding},
      {"aten::embedding_dense_backward", embedding_dense_backward},
      {"aten::native_layer_norm", native_layer_norm},
      {"aten::native_layer_norm_backward", native_layer_norm_backward},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", flash_attention},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", flash_attention_backward},
      {"aten::relu", same_shape},
      {"aten::flip", same_shape},
      {"aten::roll", same_shape},
      {"aten::abs.out", same_shape},
      {"aten::nan_to_num.out", same_shape},
      {"aten::logical_not.out", same_shape_bool},
      {"aten::isnan", same_shape_bool},
      {"aten::max", one_element},
      {"aten::min", one_element},
      {"aten::dot", one_element},
      {"aten::logical_and.out", broadcast},
      {"aten::logical_or.out", broadcast},
      {"aten::logical_xor.out", broadcast},
      {"aten::floor_divide", broadcast},
      {"aten::rsub.Tensor", broadcast},
      {"aten::where.self", where},
      {"aten::where.self_out", where},
      {"aten::index_select", index_select},
      {"aten::index_select.out", index_select},
  };
  const auto found = kTable.find(name);
  if (found == kTable.end()) return std::nullopt;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return found->second(inputs);
}

}  // namespace ferry
