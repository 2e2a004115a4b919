#include "train/device_update.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "spec/layout.h"
#include "train/step_kernels.h"

namespace ferry {
namespace {

/// The fp32 master from its halves: bits = (hi << 16) + int16(lo), see optim/split.h.
at::Tensor join_halves(const at::Tensor& hi, const at::Tensor& lo) {
  at::Tensor bits = hi.view(at::kShort).to(at::kInt);
  bits.mul_(65536);  // a shift by 16 that wraps as int32 does
  bits.add_(lo);
  return bits.view(at::kFloat);
}

/// hi = (bits + 0x8000) >> 16 and lo = bits, both cut to 16 bits.
void split_halves(const at::Tensor& master, const at::Tensor& hi, const at::Tensor& lo) {
  at::Tensor bits = master.view(at::kInt);
  lo.copy_(bits);
  bits.add_(0x8000);
  bits.bitwise_right_shift_(16);
  hi.view(at::kShort).copy_(bits);
}

/// In fp32, without a temporary where it is used as it is.
at::Tensor scaled_gradient(const DeviceState& s, const at::Tensor& scale) {
  at::Tensor g = s.rounds ? s.gradient.to(at::kBFloat16) : s.gradient;  // to nearest even
  g = g.to(at::kFloat);
  return scale.defined() ? g * scale : g;
}

void update_moments(const AdamWFactors& f, const DeviceState& s, const at::Tensor& scale) {
  const at::Tensor g = scaled_gradient(s, scale);
  at::Tensor term = g * f.one_minus_beta1;
  s.m.mul_(f.beta1).add_(term);
  at::mul_out(term, g, g);
  term.mul_(f.one_minus_beta2);
  s.v.mul_(f.beta2).add_(term);
}

/// sqrt(v), correctly rounded. On the CPU torch's fp32 sqrt is off by an ulp in one element of five
/// (vector mathematics library); a root in fp64 is off by far less than what decides the rounding
/// to fp32.
at::Tensor rounded_root(const at::Tensor& v) {
  at::Tensor root = v.to(at::kDouble);
  root.sqrt_();
  return root.to(at::kFloat);
}

void update_piece(const AdamWFactors& f, const DeviceState& s, const at::Tensor& scale) {
  update_moments(f, s, scale);
  at::Tensor change = rounded_root(s.v);
  change.mul_(f.inverse_root_bias2).add_(f.eps);
  at::div_out(change, s.m, change);
  change.mul_(f.step_size);

  at::Tensor w = s.lo.defined() ? join_halves(s.weight, s.lo) : s.weight;
  if (f.keep != 1.0F) w.mul_(f.keep);
  w.sub_(change);
  if (s.lo.defined()) split_halves(w, s.weight, s.lo);
}

}  // namespace

void device_adamw_step(const AdamWFactors& factors, const DeviceState& state,
                       const at::Tensor& scale, const StepKernels* kernels) {
  if (kernels != nullptr) return kernels->adamw(factors, state, scale);
  const std::int64_t numel = state.m.numel();
  for (std::int64_t begin = 0; begin < numel; begin += kUpdatePieceElements) {
    const std::int64_t length = std::min(kUpdatePieceElements, numel - begin);
    const auto piece = [&](const at::Tensor& whole) {
      return whole.defined() ? whole.narrow(0, begin, length) : whole;
    };
    update_piece(factors,
                 {piece(state.weight), piece(state.lo), piece(state.m), piece(state.v),
                  piece(state.gradient), state.rounds},
                 scale);
  }
}

}  // namespace ferry
