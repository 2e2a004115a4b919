// The language model head: logits and cross-entropy in chunks of tokens, forward and gradient
// together, so that all logits never exist at once. Like block.h, it never waits for the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "spec/model_spec.h"

namespace ferry {

/// Marks a position whose prediction is not learned.
inline constexpr std::int64_t kIgnoredLabel = -100;

/// What the head sees of one micro-batch.
struct HeadInput {
  at::Tensor x;       // [batch, time, hidden], after the final norm
  at::Tensor weight;  // [vocab, hidden], in the type of x
  at::Tensor labels;  // [batch, time] int64, already shifted: the token that follows each position
  double scale = 1;   // 1 / (learned tokens of the whole step, over all micro-batches)
  /// Tokens whose logits exist at once (spec/row_chunks.h); four times as many where the device
  /// has a kernel for cross-entropies.
  std::int64_t chunk_rows = 0;
};

struct HeadResult {
  at::Tensor loss;  // 0-dim fp32: scale * sum of the cross-entropies of the learned positions
  at::Tensor dx;    // like x
};

/// Takes the loss and its gradients. The weight's gradient goes to `weight_gradient` [vocab,
/// hidden] fp32, contiguous: written when `accumulate` is false, else added to.
HeadResult head_forward_backward(const HeadInput& input, const at::Tensor& weight_gradient,
                                 bool accumulate);

/// The loss alone.
at::Tensor head_loss(const HeadInput& input);

/// Rows of the weight's gradient that exist in the compute type at once, before they are added to
/// the fp32 sum: 4 MiB, which a processor's caches hold, or 64 MiB on a GPU, where the head of an
/// 8B model would else take 250 small products per chunk. Whole 64s: a GPU's products of columns
/// that begin elsewhere take twice as long.
std::int64_t head_piece_rows(at::Device device, std::int64_t hidden);

}  // namespace ferry
