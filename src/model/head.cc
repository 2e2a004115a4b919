#include "model/head.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/check.h"
#include "spec/row_chunks.h"

namespace ferry {
namespace {

/// The loss of one chunk of tokens and what its gradient needs.
struct Chunk {
  at::Tensor log_probability;  // [rows, vocab] fp32
  at::Tensor label;            // [rows, 1], 0 where ignored
  at::Tensor factor;           // [rows, 1] fp32: scale, or 0 where ignored
  at::Tensor loss;             // 0-dim
};

Chunk chunk_loss(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& labels,
                 double scale) {
  Chunk chunk;
  chunk.log_probability = at::log_softmax(at::mm(x, weight.t()), 1, at::kFloat);
  chunk.label = labels.unsqueeze(1).clamp_min(0);
  chunk.factor = labels.ne(kIgnoredLabel).unsqueeze(1).to(at::kFloat).mul_(scale);
  chunk.loss = chunk.log_probability.gather(1, chunk.label).mul_(chunk.factor).sum().neg_();
  return chunk;
}

/// Turns the chunk's log-probabilities, in place, into the gradient of its logits:
/// factor * (p - 1 at the label).
at::Tensor logits_gradient(Chunk& chunk) {
  at::Tensor& gradient = chunk.log_probability.exp_().mul_(chunk.factor);
  return gradient.scatter_add_(1, chunk.label, chunk.factor.neg());
}

/// sum = (accumulate ? sum : 0) + gradient^T x
void add_weight_gradient(const at::Tensor& gradient, const at::Tensor& x, at::Tensor sum,
                         bool accumulate) {
  if (x.scalar_type() == at::kFloat) {
    sum.addmm_(gradient.t(), x, /*beta=*/accumulate ? 1 : 0);
    return;
  }
  const std::int64_t vocab = sum.size(0);
  const std::int64_t piece =
      std::max<std::int64_t>(1, head_piece_elements(x.device()) / sum.size(1));
  for (std::int64_t first = 0; first < vocab; first += piece) {
    const std::int64_t rows = std::min(piece, vocab - first);
    const at::Tensor product = at::mm(gradient.narrow(1, first, rows).t(), x);
    at::Tensor target = sum.narrow(0, first, rows);
    accumulate ? target.add_(product) : target.copy_(product);
  }
}

void check_input(const HeadInput& input) {
  FERRY_CHECK(input.labels.numel() * input.weight.size(1) == input.x.numel(),
              "one label per token");
}

}  // namespace

std::int64_t head_piece_elements(at::Device device) {
  return std::int64_t{1} << (device.is_cuda() ? 25 : 21);
}

HeadResult head_forward_backward(const HeadInput& input, const at::Tensor& weight_gradient,
                                 bool accumulate) {
  check_input(input);
  FERRY_CHECK(weight_gradient.scalar_type() == at::kFloat && weight_gradient.is_contiguous(),
              "the weight's gradient is summed in contiguous fp32");
  const at::NoGradGuard no_graph;
  const at::Tensor x = input.x.reshape({-1, input.x.size(-1)});
  const at::Tensor labels = input.labels.reshape({-1});
  HeadResult result{.loss = at::zeros({}, x.options().dtype(at::kFloat)),
                    .dx = at::empty(input.x.sizes(), x.options())};
  const at::Tensor dx = result.dx.view(x.sizes());

  for (const auto [first, rows] : row_chunks(x.size(0), input.chunk_rows)) {
    const at::Tensor x_rows = x.narrow(0, first, rows);
    Chunk chunk = chunk_loss(x_rows, input.weight, labels.narrow(0, first, rows), input.scale);
    result.loss.add_(chunk.loss);
    const at::Tensor gradient = logits_gradient(chunk).to(x.scalar_type());
    chunk.log_probability.reset();
    at::Tensor dx_rows = dx.narrow(0, first, rows);
    at::mm_out(dx_rows, gradient, input.weight);
    add_weight_gradient(gradient, x_rows, weight_gradient, accumulate || first > 0);
  }
  return result;
}

at::Tensor head_loss(const HeadInput& input) {
  check_input(input);
  const at::NoGradGuard no_graph;
  const at::Tensor x = input.x.reshape({-1, input.x.size(-1)});
  const at::Tensor labels = input.labels.reshape({-1});
  at::Tensor loss = at::zeros({}, x.options().dtype(at::kFloat));
  for (const auto [first, rows] : row_chunks(x.size(0), input.chunk_rows)) {
    loss.add_(chunk_loss(x.narrow(0, first, rows), input.weight, labels.narrow(0, first, rows),
                         input.scale)
                  .loss);
  }
  return loss;
}

}  // namespace ferry
