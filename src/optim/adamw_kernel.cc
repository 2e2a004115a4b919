#include "optim/adamw_kernel.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "optim/split.h"

// Built with -ffp-contract=off (see CMakeLists.txt): a fused multiply-add would change the bits.

namespace ferry {
namespace {

constexpr std::uint32_t kMagnitude = 0x7fffffff;
// The smallest magnitudes that are not finite: as fp32, and as bf16 after split_hi's rounding.
constexpr std::uint32_t kFullLimit = 0x7f800000;
constexpr std::uint32_t kSplitLimit = 0x7f7f8000;

struct SplitWeights {
  static constexpr std::uint32_t kLimit = kSplitLimit;
  std::uint16_t* hi;
  std::uint16_t* lo;

  [[gnu::always_inline]] std::uint32_t load(std::size_t i) const { return join(hi[i], lo[i]); }
  [[gnu::always_inline]] void store(std::size_t i, std::uint32_t bits) const {
    hi[i] = split_hi(bits);
    lo[i] = split_lo(bits);
  }
};

struct FullWeights {
  static constexpr std::uint32_t kLimit = kFullLimit;
  float* weight;

  [[gnu::always_inline]] std::uint32_t load(std::size_t i) const {
    return std::bit_cast<std::uint32_t>(weight[i]);
  }
  [[gnu::always_inline]] void store(std::size_t i, std::uint32_t bits) const {
    weight[i] = std::bit_cast<float>(bits);
  }
};

struct FloatGradient {
  const float* values;
  [[gnu::always_inline]] float load(std::size_t i) const { return values[i]; }
};

struct Bf16Gradient {
  const std::uint16_t* values;
  [[gnu::always_inline]] float load(std::size_t i) const { return bf16_to_float(values[i]); }
};

// The order of operations is the contract of AdamWFactors. Non-finite results are found without a
// branch, as the largest bit pattern seen: v is never negative, so only the weight's sign is
// masked.
template <class Weights, class Gradient>
[[gnu::always_inline]] inline bool run(const AdamWFactors& factors, Weights weights,
                                       Gradient gradient, float* ms, float* vs, std::size_t count) {
  const AdamWFactors f = factors;
  std::uint32_t largest_w = 0, largest_v = 0;
#pragma omp simd reduction(max : largest_w, largest_v)
  for (std::size_t i = 0; i < count; ++i) {
    const float g = gradient.load(i) * f.gradient_scale;
    const float w = std::bit_cast<float>(weights.load(i)) * f.keep;
    const float m = ms[i] * f.beta1 + g * f.one_minus_beta1;
    const float v = vs[i] * f.beta2 + (g * g) * f.one_minus_beta2;
    const float d = std::sqrt(v) / f.root_bias2 + f.eps;
    const auto bits = std::bit_cast<std::uint32_t>(w - (m / d) * f.step_size);
    ms[i] = m;
    vs[i] = v;
    weights.store(i, bits);
    largest_w = std::max(largest_w, bits & kMagnitude);
    largest_v = std::max(largest_v, std::bit_cast<std::uint32_t>(v));
  }
  return largest_w < Weights::kLimit && largest_v < kFullLimit;
}

[[gnu::always_inline]] inline bool run(const AdamWFactors& factors, const AdamWChunk& c) {
  const SplitWeights split{c.hi, c.lo};
  const FullWeights full{c.weight};
  const FloatGradient fp32{c.gradient};
  const Bf16Gradient bf16{c.gradient_bf16};
  if (c.weight != nullptr) {
    return c.gradient != nullptr ? run(factors, full, fp32, c.m, c.v, c.count)
                                 : run(factors, full, bf16, c.m, c.v, c.count);
  }
  return c.gradient != nullptr ? run(factors, split, fp32, c.m, c.v, c.count)
                               : run(factors, split, bf16, c.m, c.v, c.count);
}

bool portable(const AdamWFactors& factors, const AdamWChunk& chunk) { return run(factors, chunk); }

#if defined(__x86_64__)
// AVX2 and AVX-512. Named features instead of x86-64-v3 and -v4: __builtin_cpu_supports of the
// oldest supported compilers does not know the levels. FMA is left out on purpose.
[[gnu::target("avx2")]] bool avx2(const AdamWFactors& factors, const AdamWChunk& chunk) {
  return run(factors, chunk);
}

[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")]] bool avx512(
    const AdamWFactors& factors, const AdamWChunk& chunk) {
  return run(factors, chunk);
}
#endif

std::vector<AdamWKernel> supported() {
  std::vector<AdamWKernel> kernels;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    kernels.push_back(avx512);
  }
  if (__builtin_cpu_supports("avx2")) kernels.push_back(avx2);
#endif
  kernels.push_back(portable);
  return kernels;
}

}  // namespace

std::span<const AdamWKernel> adamw_kernels() {
  static const std::vector<AdamWKernel> kernels = supported();
  return kernels;
}

bool is_finite(const AdamWChunk& chunk, std::size_t i) {
  const bool full = chunk.weight != nullptr;
  const std::uint32_t w =
      full ? FullWeights{chunk.weight}.load(i) : SplitWeights{chunk.hi, chunk.lo}.load(i);
  return (w & kMagnitude) < (full ? kFullLimit : kSplitLimit) &&
         std::bit_cast<std::uint32_t>(chunk.v[i]) < kFullLimit;
}

}  // namespace ferry
