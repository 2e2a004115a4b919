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

// Likewise where the state before is kept or comes back: what is copied is still in a core's cache
// when it is updated.
constexpr std::size_t kCopiedChunk = std::size_t{1} << 15;

AdamWChunk whole(const OptimizerState& state) {
  AdamWChunk chunk;
  std::size_t other = 0;  // the second span of the weight
  if (const auto* split = std::get_if<SplitState>(&state)) {
    chunk.count = split->hi.size();
    other = split->lo.size();
    chunk.hi = split->hi.data();
    chunk.lo = split->lo.data();
    chunk.m = split->m.data();
    chunk.v = split->v.data();
    FERRY_CHECK(split->m.size() == other && split->v.size() == other, "m and v fit the weight");
  } else {
    const auto& full = std::get<FullState>(state);
    chunk.count = other = full.weight.size();
    chunk.weight = full.weight.data();
    chunk.m = full.m.data();
    chunk.v = full.v.data();
    FERRY_CHECK(full.m.size() == other && full.v.size() == other, "m and v fit the weight");
  }
  FERRY_CHECK(chunk.count == other, "the halves of a weight fit");
  return chunk;
}

AdamWChunk whole(const Update& update) {
  AdamWChunk chunk = whole(update.state);
  std::size_t gradients = 0;
  if (const auto* fp32 = std::get_if<std::span<const float>>(&update.gradient)) {
    chunk.gradient = fp32->data();
    gradients = fp32->size();
  } else {
    const auto& bf16 = std::get<std::span<const std::uint16_t>>(update.gradient);
    chunk.gradient_bf16 = bf16.data();
    gradients = bf16.size();
  }
  FERRY_CHECK(chunk.count == gradients, "the gradient fits the weight");
  return chunk;
}

/// Copies a state, not its gradient.
void copy_state(const AdamWChunk& from, const AdamWChunk& to) {
  FERRY_CHECK(from.count == to.count && (from.hi == nullptr) == (to.hi == nullptr),
              "the original fits the state");
  const auto copy = [&](const auto* source, auto* target) {
    if (source != nullptr) std::copy_n(source, from.count, target);
  };
  copy(from.hi, to.hi);
  copy(from.lo, to.lo);
  copy(from.weight, to.weight);
  copy(from.m, to.m);
  copy(from.v, to.v);
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

/// An update's arrays, for its pieces.
class Run {
 public:
  explicit Run(const Update& update) : chunk_(whole(update)), again_(update.again) {
    if (update.original) original_ = whole(*update.original);
  }

  std::size_t count() const { return chunk_.count; }
  std::size_t piece() const { return original_ ? kCopiedChunk : kChunk; }

  /// Returns whether every result is finite.
  bool step(const AdamWFactors& factors, std::size_t begin, std::size_t count) const {
    const AdamWChunk now = part(chunk_, begin, count);
    if (original_) {
      const AdamWChunk then = part(*original_, begin, count);
      again_ ? copy_state(then, now) : copy_state(now, then);
    }
    return adamw_kernels()[0](factors, now);
  }

 private:
  AdamWChunk chunk_;
  std::optional<AdamWChunk> original_;
  bool again_;
};

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
  const Run run(update);
  if (run.step(adamw_factors(adamw, gradient_scale, update.decay), 0, run.count())) {
    return std::nullopt;
  }
  return first_non_finite(whole(update));
}

std::optional<NonFinite> adamw_step(const AdamW& adamw, std::span<const Update> updates,
                                    float gradient_scale, WorkerTeam& team) {
  const AdamWFactors with_decay = adamw_factors(adamw, gradient_scale, true);
  const AdamWFactors without_decay = adamw_factors(adamw, gradient_scale, false);
  std::vector<Run> runs;
  std::vector<std::size_t> ends;  // of each update's pieces, in one numbering over all updates
  std::size_t pieces = 0;
  for (const Update& update : updates) {
    runs.emplace_back(update);
    pieces += (runs.back().count() + runs.back().piece() - 1) / runs.back().piece();
    ends.push_back(pieces);
  }
  const auto update_of = [&](std::size_t piece) {
    return static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), piece) -
                                    ends.begin());
  };
  const auto begin_of = [&](std::size_t piece, std::size_t update) {
    return (piece - (update == 0 ? 0 : ends[update - 1])) * runs[update].piece();
  };

  std::mutex mutex;
  std::size_t bad = pieces;  // the first piece with a non-finite result; guarded by mutex
  team.for_each(pieces, [&](std::size_t piece) {
    const std::size_t update = update_of(piece);
    const AdamWFactors& factors = updates[update].decay ? with_decay : without_decay;
    if (runs[update].step(factors, begin_of(piece, update), runs[update].piece())) return;
    const std::lock_guard lock(mutex);
    bad = std::min(bad, piece);
  });
  if (bad == pieces) return std::nullopt;
  const std::size_t update = update_of(bad), begin = begin_of(bad, update);
  return NonFinite{
      update, begin + first_non_finite(part(whole(updates[update]), begin, runs[update].piece()))};
}

}  // namespace ferry
