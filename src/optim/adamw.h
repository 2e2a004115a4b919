// AdamW with decoupled weight decay, one fused pass over (gradient, weight, m, v) in place.
//
// The order of operations is part of the contract: every operation below is one correctly rounded
// fp32 operation, nothing is contracted into a fused multiply-add, no sum spans elements. So the
// result does not depend on the number of threads, the chunking or the vector width, and the same
// update made of elementary tensor operations on a device is equal to it bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "optim/worker_team.h"

namespace ferry {

/// One step's numbers.
struct AdamW {
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  std::int64_t step = 1;  // counts from 1
};

/// A run of parameters trained in bf16. hi is the weight that devices use (optim/split.h).
struct SplitState {
  std::span<std::uint16_t> hi, lo;
  std::span<float> m, v;
};

/// A run of parameters trained in fp32.
struct FullState {
  std::span<float> weight, m, v;
};

using OptimizerState = std::variant<SplitState, FullState>;

/// What one step does to one run of parameters (usually a tensor). Requires: all spans have one
/// length and do not overlap; they stay valid during the call.
struct Update {
  OptimizerState state;
  std::variant<std::span<const float>, std::span<const std::uint16_t>> gradient;  // fp32 or bf16
  bool decay = true;  // false: weight_decay does not apply, as for biases and norms
  /// Of the same kind as `state`. What that was goes there first; or, `again`, comes from there, so
  /// that an update that was made too early is made anew.
  std::optional<OptimizerState> original = {};
  bool again = false;
};

// clang-format off
/// The step's constants, each computed in double and rounded to float once. With these, per element
/// and in this order (the formulas are those of AdamW, Loshchilov and Hutter 2019, algorithm 2):
///
///   g = float(gradient) * gradient_scale
///   w = w * keep                                keep = 1 - lr * weight_decay
///   m = m * beta1 + g * one_minus_beta1         two products, then the sum
///   v = v * beta2 + (g * g) * one_minus_beta2
///   d = sqrt(v) * inverse_root_bias2 + eps      inverse_root_bias2 = 1 / sqrt(1 - beta2^step)
///   w = w - (m / d) * step_size                 step_size = lr / (1 - beta1^step)
///
/// Where decay is false, keep is 1; a product by 1.0f is exact, so it may also be left out.
// clang-format on
struct AdamWFactors {
  float gradient_scale;
  float keep;
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float inverse_root_bias2;
  float eps;
  float step_size;
};

/// Requires: step >= 1, 0 <= beta1 < 1, 0 <= beta2 < 1, eps > 0.
AdamWFactors adamw_factors(const AdamW& adamw, float gradient_scale, bool decay);

/// Updates one run of parameters on the calling thread. `gradient_scale` multiplies every gradient
/// (clipping, normalisation); 1.0f changes nothing.
///
/// Returns the first element whose weight or v is no longer finite (for a SplitState: would not be
/// finite when rounded to bf16). The run's state is then written and of no use:
/// whoever calls must stop and go back to a checkpoint. Nothing means success.
std::optional<std::size_t> adamw_step(const AdamW& adamw, const Update& update,
                                      float gradient_scale);

/// Where a step over several runs went wrong: updates[update], element.
struct NonFinite {
  std::size_t update = 0;
  std::size_t element = 0;

  bool operator==(const NonFinite&) const = default;
};

/// Updates all runs on the team's threads, in chunks. Returns the first element, by update and then
/// by position, that is no longer finite; see adamw_step.
std::optional<NonFinite> adamw_step(const AdamW& adamw, std::span<const Update> updates,
                                    float gradient_scale, WorkerTeam& team);

}  // namespace ferry
