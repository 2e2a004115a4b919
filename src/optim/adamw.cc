#include "optim/adamw.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <vector>

#include "base/check.h"
#include "optim/adamw_kernel.h"

namespace ferry {
namespace {

// Elements per piece of work: some 50 us, far above the cost of taking one, and small enough that a
// team whose threads are disturbed still ends together.
constexpr std::size_t kChunk = std::size_t{1} << 18;

AdamWChunk whole(const Update& update) {
  AdamWChunk chunk;
  std::size_t other = 0;  // the second span of the weight
  if (const auto* split = std::get_if<SplitState>(&update.state)) {
    chunk.count = split->hi.size();
    other = split->lo.size();
    chunk.hi = split->hi.data();
    chunk.lo = split->lo.data();
    chunk.m = split->m.data();
    chunk.v = split->v.data();
    FERRY_CHECK(split->m.size() == other && split->v.size() == other, "m and v fit the weight");
  } else {
    const auto& full = std::get<FullState>(update.state);
    chunk.count = other = full.weight.size();
    chunk.weight = full.weight.data();
    chunk.m = full.m.data();
    chunk.v = full.v.data();
    FERRY_CHECK(full.m.size() == other && full.v.size() == other, "m and v fit the weight");
  }
  std::size_t gradients = 0;
  if (const auto* fp32 = std::get_if<std::span<const float>>(&update.gradient)) {
    chunk.gradient = fp32->data();
    gradients = fp32->size();
  } else {
    const auto& bf16 = std::get<std::span<const std::uint16_t>>(update.gradient);
    chunk.gradient_bf16 = bf16.data();
    gradients = bf16.size();
  }
  FERRY_CHECK(chunk.count == other && chunk.count == gradients, "the gradient fits the weight");
  return chunk;
}

AdamWChunk part(AdamWChunk chunk, std::size_t begin, std::size_t count) {
  const auto advance = [begin](auto*& pointer) {
    if (pointer != nullptr) pointer += begin;
  };
  advance(chunk.hi);
  advance(chunk.lo);
  advance(chunk.weight);
  advance(chunk.m);
  advance(chunk.v);
  advance(chunk.gradient);
  advance(chunk.gradient_bf16);
  chunk.count = std::min(count, chunk.count - begin);
  return chunk;
}

std::size_t first_non_finite(const AdamWChunk& chunk) {
  std::size_t i = 0;
  while (i < chunk.count && is_finite(chunk, i)) ++i;
  FERRY_CHECK(i < chunk.count, "the kernel and is_finite agree");
  return i;
}

}  // namespace

AdamWFactors adamw_factors(const AdamW& adamw, float gradient_scale, bool decay) {
  FERRY_CHECK(adamw.step >= 1, "steps count from 1");
  FERRY_CHECK(adamw.beta1 >= 0 && adamw.beta1 < 1 && adamw.beta2 >= 0 && adamw.beta2 < 1,
              "betas lie in [0, 1)");
  FERRY_CHECK(static_cast<float>(adamw.eps) > 0, "eps keeps 0 / 0 away");
  const auto step = static_cast<double>(adamw.step);
  const double bias1 = 1 - std::pow(adamw.beta1, step);
  const double bias2 = 1 - std::pow(adamw.beta2, step);
  return {.gradient_scale = gradient_scale,
          .keep = decay ? static_cast<float>(1 - adamw.lr * adamw.weight_decay) : 1.0F,
          .beta1 = static_cast<float>(adamw.beta1),
          .one_minus_beta1 = static_cast<float>(1 - adamw.beta1),
          .beta2 = static_cast<float>(adamw.beta2),
          .one_minus_beta2 = static_cast<float>(1 - adamw.beta2),
          .inverse_root_bias2 = static_cast<float>(1 / std::sqrt(bias2)),
          .eps = static_cast<float>(adamw.eps),
          .step_size = static_cast<float>(adamw.lr / bias1)};
}

std::optional<std::size_t> adamw_step(const AdamW& adamw, const Update& update,
                                      float gradient_scale) {
  const AdamWChunk chunk = whole(update);
  if (adamw_kernels()[0](adamw_factors(adamw, gradient_scale, update.decay), chunk)) {
    return std::nullopt;
  }
  return first_non_finite(chunk);
}

std::optional<NonFinite> adamw_step(const AdamW& adamw, std::span<const Update> updates,
                                    float gradient_scale, WorkerTeam& team) {
  const AdamWFactors with_decay = adamw_factors(adamw, gradient_scale, true);
  const AdamWFactors without_decay = adamw_factors(adamw, gradient_scale, false);
  std::vector<AdamWChunk> runs;
  std::vector<std::size_t> ends;  // of each update's pieces, in one numbering over all updates
  std::size_t pieces = 0;
  for (const Update& update : updates) {
    runs.push_back(whole(update));
    pieces += (runs.back().count + kChunk - 1) / kChunk;
    ends.push_back(pieces);
  }
  const auto update_of = [&](std::size_t piece) {
    return static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), piece) -
                                    ends.begin());
  };
  const auto begin_of = [&](std::size_t piece, std::size_t update) {
    return (piece - (update == 0 ? 0 : ends[update - 1])) * kChunk;
  };

  const AdamWKernel kernel = adamw_kernels()[0];
  std::mutex mutex;
  std::size_t bad = pieces;  // the first piece with a non-finite result; guarded by mutex
  team.for_each(pieces, [&](std::size_t piece) {
    const std::size_t update = update_of(piece);
    const AdamWFactors& factors = updates[update].decay ? with_decay : without_decay;
    if (kernel(factors, part(runs[update], begin_of(piece, update), kChunk))) return;
    const std::lock_guard lock(mutex);
    bad = std::min(bad, piece);
  });
  if (bad == pieces) return std::nullopt;
  const std::size_t update = update_of(bad), begin = begin_of(bad, update);
  return NonFinite{update, begin + first_non_finite(part(runs[update], begin, kChunk))};
}

}  // namespace ferry
