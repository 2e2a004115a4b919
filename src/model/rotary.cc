#include "model/rotary.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <numbers>
#include <vector>

#include "model/fused.h"

namespace ferry {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

/// Llama 3.1's scaling: waves longer than original_positions / low_frequency_factor are stretched
/// by `factor`, those shorter than original_positions / high_frequency_factor kept, and those
/// between mixed by where their length lies.
at::Tensor scale_as_llama3(const Rope& rope, const at::Tensor& frequency) {
  const at::Tensor wavelength = at::reciprocal(frequency) * (2 * std::numbers::pi);
  const at::Tensor waves =
      at::reciprocal(wavelength) * static_cast<double>(rope.original_positions);
  const at::Tensor kept = ((waves - rope.low_frequency_factor) /
                           (rope.high_frequency_factor - rope.low_frequency_factor))
                              .clamp(0, 1);
  return (1 - kept) * frequency / rope.factor + kept * frequency;
}

/// Angle per position of every pair, fp32 [head_dim / 2].
at::Tensor frequencies(const ModelSpec& model, at::Device device) {
  const at::TensorOptions options = at::TensorOptions(at::kFloat).device(device);
  const at::Tensor exponent =
      at::arange(0, model.head_dim, 2, options) / static_cast<double>(model.head_dim);
  const at::Tensor frequency = at::reciprocal(at::pow(model.rope.theta, exponent));
  switch (model.rope.scaling) {
    case Rope::Scaling::none:
      return frequency;
    case Rope::Scaling::linear:
      return frequency / model.rope.factor;
    case Rope::Scaling::llama3:
      return scale_as_llama3(model.rope, frequency);
  }
  return frequency;
}

/// (a cos - b sin, b cos + a sin) for the halves a, b of the last dimension; `sign` -1 turns back.
at::Tensor turn(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine, int sign) {
  const std::int64_t half = x.size(-1) / 2;
  const FusedOperations* const fused = fused_operations();
  if (fused != nullptr && half % kFusedGroup == 0 && fits_fused(x) && fits_fused(cosine) &&
      fits_fused(sine)) {
    return fused->rotate(x, cosine, sine, sign);
  }
  const at::Tensor a = x.narrow(-1, 0, half), b = x.narrow(-1, half, half);
  at::Tensor y = at::empty(x.sizes(), x.options());
  at::Tensor y_a = y.narrow(-1, 0, half), y_b = y.narrow(-1, half, half);
  at::mul_out(y_a, a, cosine).addcmul_(b, sine, -sign);
  at::mul_out(y_b, b, cosine).addcmul_(a, sine, sign);
  return y;
}

struct Rotate : Function<Rotate> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& cosine,
                            const at::Tensor& sine) {
    context->save_for_backward({cosine, sine});
    return turn(x, cosine, sine, 1);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    return {turn(gradients[0], saved[0], saved[1], -1), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

RotaryTable rotary_table(const ModelSpec& model, std::int64_t length,
                         const at::TensorOptions& options) {
  const at::Device device = options.device();
  const at::Tensor position = at::arange(length, at::TensorOptions(at::kFloat).device(device));
  const at::Tensor angle = (position.unsqueeze(1) * frequencies(model, device)).unsqueeze(1);
  const at::ScalarType type = c10::typeMetaToScalarType(options.dtype());
  return {at::cos(angle).to(type), at::sin(angle).to(type)};
}

RotaryTable rotary_rows(const ModelSpec& model, std::int64_t time, const Positions& positions,
                        const at::TensorOptions& options) {
  const std::vector<std::int64_t>& documents = positions.documents;
  const std::int64_t longest = documents.empty() ? time : std::ranges::max(documents);
  RotaryTable table = positions.rotary;
  if (!table.cosine.defined() || table.cosine.size(0) < longest) {
    table = rotary_table(model, longest, options);
  }
  const auto rows = [&](const at::Tensor& all) {
    if (documents.empty()) return all.narrow(0, 0, time);
    std::vector<at::Tensor> parts;
    for (const std::int64_t length : documents) parts.push_back(all.narrow(0, 0, length));
    return at::cat(parts);
  };
  return {rows(table.cosine), rows(table.sine)};
}

at::Tensor rotate(const at::Tensor& x, const RotaryTable& table) {
  return Rotate::apply(x, table.cosine, table.sine);
}

}  // namespace ferry
