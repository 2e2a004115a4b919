#include "model/head.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "model/fused.h"
#include "spec/row_chunks.h"

namespace ferry {
namespace {

/// Whether cross-entropies of such logits have a kernel of their own.
bool has_kernel(const HeadInput& input) {
  return fused_operations() != nullptr && input.x.scalar_type() == at::kBFloat16 &&
         input.weight.size(0) % kFusedGroup == 0;
}

/// The kernel takes 2 bytes for a token's logit where torch's operations take 8: so it has four
/// times the tokens in a chunk.
std::vector<RowChunk> chunks_of(const HeadInput& input) {
  const std::int64_t tokens = input.labels.numel();
  return row_chunks(tokens, has_kernel(input) ? nearly_equal_rows(tokens, 4 * input.chunk_rows)
                                              : input.chunk_rows);
}

/// Of one chunk of tokens.
struct Chunk {
  at::Tensor loss;             // 0-dim
  at::Tensor logits_gradient;  // [rows, vocab] in the type of x; undefined unless asked for
};

Chunk fused_loss(at::Tensor logits, const at::Tensor& labels, double scale, bool wants_gradient) {
  const at::Tensor losses = fused_operations()->cross_entropy(
      logits, labels, wants_gradient ? std::optional(scale) : std::nullopt);
  return {losses.sum().mul_(scale), wants_gradient ? logits : at::Tensor()};
}

/// The gradient is factor * (p - 1 at the label), factor being scale, or 0 where ignored. It takes
/// the place of the fp32 probabilities.
Chunk loss_by_torch(at::Tensor logits, const at::Tensor& labels, double scale,
                    bool wants_gradient) {
  const at::ScalarType type = logits.scalar_type();
  at::Tensor log_probability = at::log_softmax(std::exchange(logits, {}), 1, at::kFloat);
  const at::Tensor label = labels.unsqueeze(1).clamp_min(0);
  const at::Tensor factor = labels.ne(kIgnoredLabel).unsqueeze(1).to(at::kFloat).mul_(scale);
  Chunk chunk{.loss = log_probability.gather(1, label).mul_(factor).sum().neg_(),
              .logits_gradient = {}};
  if (!wants_gradient) return chunk;
  at::Tensor& gradient = log_probability.exp_().mul_(factor);
  chunk.logits_gradient = gradient.scatter_add_(1, label, factor.neg()).to(type);
  return chunk;
}

Chunk chunk_loss(const HeadInput& input, const at::Tensor& x, const at::Tensor& labels,
                 bool wants_gradient) {
  const auto loss = has_kernel(input) ? &fused_loss : &loss_by_torch;
  return loss(at::mm(x, input.weight.t()), labels, input.scale, wants_gradient);
}

/// sum = (accumulate ? sum : 0) + gradient^T x
void add_weight_gradient(const at::Tensor& gradient, const at::Tensor& x, at::Tensor sum,
                         bool accumulate) {
  if (x.scalar_type() == at::kFloat) {
    sum.addmm_(gradient.t(), x, /*beta=*/accumulate ? 1 : 0);
    return;
  }
  const std::int64_t vocab = sum.size(0);
  const std::int64_t piece = head_piece_rows(x.device(), sum.size(1));
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

std::int64_t head_piece_rows(at::Device device, std::int64_t hidden) {
  constexpr std::int64_t kAligned = 64;
  const std::int64_t elements = std::int64_t{1} << (device.is_cuda() ? 25 : 21);
  const std::int64_t rows = std::max<std::int64_t>(1, elements / hidden);
  return rows < kAligned ? rows : rows / kAligned * kAligned;
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

  for (const auto [first, rows] : chunks_of(input)) {
    const at::Tensor x_rows = x.narrow(0, first, rows);
    const Chunk chunk =
        chunk_loss(input, x_rows, labels.narrow(0, first, rows), /*wants_gradient=*/true);
    result.loss.add_(chunk.loss);
    at::Tensor dx_rows = dx.narrow(0, first, rows);
    at::mm_out(dx_rows, chunk.logits_gradient, input.weight);
    add_weight_gradient(chunk.logits_gradient, x_rows, weight_gradient, accumulate || first > 0);
  }
  return result;
}

at::Tensor head_loss(const HeadInput& input) {
  check_input(input);
  const at::NoGradGuard no_graph;
  const at::Tensor x = input.x.reshape({-1, input.x.size(-1)});
  const at::Tensor labels = input.labels.reshape({-1});
  at::Tensor loss = at::zeros({}, x.options().dtype(at::kFloat));
  for (const auto [first, rows] : chunks_of(input)) {
    loss.add_(chunk_loss(input, x.narrow(0, first, rows), labels.narrow(0, first, rows),
                         /*wants_gradient=*/false)
                  .loss);
  }
  return loss;
}

}  // namespace ferry
