#include "optim/adamw_kernel.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "base/bf16.h"
#include "optim/split.h"

// Built with -ffp-contract=off (see CMakeLists.txt): a fused multiply-add would change the bits.

namespace ferry {
namespace {

constexpr std::uint32_t kMagnitude = 0x7fffffff;

struct SplitWeights {
  // The smallest magnitude that split_hi rounds to infinity.
  static constexpr std::uint32_t kLimit = 0x7f7f8000;
  std::uint16_t* hi;
  std::uint16_t* lo;

  [[gnu::always_inline]] std::uint32_t load(std::size_t i) const { return join(hi[i], lo[i]); }
  [[gnu::always_inline]] void store(std::size_t i, std::uint32_t bits) const {
    hi[i] = split_hi(bits);
    lo[i] = split_lo(bits);
  }
};

struct FullWeights {
  static constexpr std::uint32_t kLimit = 0x7f800000;  // infinity
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

// Five arrays read and four written at once are more than hardware prefetching follows. So the
// arrays are walked in pieces, and while a piece is computed the next one is fetched into L2, one
// array after the other: each block fetches kFetch bytes of one array. Tuned on Zen 4 with a
// prototype of this loop, by processor time on a busy machine, against an in-place stream: one
// thread 0.55 of its rate without fetching ahead, 0.87 to 0.91 with it; two threads 0.80 to 0.87
// without, 0.96 with. bench/adamw_bench measures the kernel itself.
constexpr std::size_t kBlock = 32;
constexpr std::size_t kPiece = 2048;
constexpr std::size_t kBlocks = kPiece / kBlock;
constexpr std::size_t kLine = 64;
constexpr std::size_t kFetch = 512;

// What each block of a piece fetches: kFetch bytes at `first` in the chunk's first piece, `stride`
// bytes further in every later one.
class Fetches {
 public:
  explicit Fetches(const AdamWChunk& c) {
    add(c.gradient);
    add(c.gradient_bf16);
    add(c.m);
    add(c.v);
    add(c.weight);
    add(c.hi);
    add(c.lo);
  }

  // Fetches the share of `block` in piece `piece`.
  [[gnu::always_inline]] void fetch(std::size_t block, std::size_t piece) const {
    if (block >= count_) return;
    const char* const address = entries_[block].first + piece * entries_[block].stride;
    for (std::size_t offset = 0; offset < kFetch; offset += kLine) {
      __builtin_prefetch(address + offset, 0, 2);
    }
  }

 private:
  struct Entry {
    const char* first;
    std::size_t stride;
  };

  template <class T>
  void add(const T* array) {
    static_assert(kPiece * sizeof(T) % kFetch == 0);
    if (array == nullptr) return;
    const std::size_t bytes = kPiece * sizeof(T);
    for (std::size_t offset = 0; offset < bytes; offset += kFetch) {
      entries_[count_++] = {reinterpret_cast<const char*>(array) + offset, bytes};
    }
  }

  // 16 bytes per element at most (gradient, m, v, weight) fill the blocks of a piece exactly.
  static_assert(kPiece * 16 == kBlocks * kFetch);
  std::array<Entry, kBlocks> entries_;
  std::size_t count_ = 0;
};

// The largest bit patterns of |w| and v seen in each lane of a block, by which non-finite results
// are found without a branch. (v is never negative; if it were, its pattern would be the largest.)
// An array instead of an OpenMP reduction: GCC limits the vector width of those to the default
// target's.
using Largest = std::array<std::uint32_t, kBlock>;

// Updates elements [begin, begin + count), count <= kBlock. The order of operations is
// AdamWFactors' contract.
template <class Weights, class Gradient>
[[gnu::always_inline]] inline void update(const AdamWFactors& f, const Weights& weights,
                                          const Gradient& gradient, float* ms, float* vs,
                                          std::size_t begin, std::size_t count, Largest& largest) {
  std::uint32_t* const lanes = largest.data();
#pragma omp simd
  for (std::size_t lane = 0; lane < count; ++lane) {
    const std::size_t i = begin + lane;
    const float g = gradient.load(i) * f.gradient_scale;
    const float w = std::bit_cast<float>(weights.load(i)) * f.keep;
    const float m = ms[i] * f.beta1 + g * f.one_minus_beta1;
    const float v = vs[i] * f.beta2 + (g * g) * f.one_minus_beta2;
    const float d = std::sqrt(v) * f.inverse_root_bias2 + f.eps;
    const auto bits = std::bit_cast<std::uint32_t>(w - (m / d) * f.step_size);
    ms[i] = m;
    vs[i] = v;
    weights.store(i, bits);
    const std::uint32_t w_seen = bits & kMagnitude, v_seen = std::bit_cast<std::uint32_t>(v);
    const std::uint32_t seen = w_seen < v_seen ? v_seen : w_seen, before = lanes[lane];
    lanes[lane] = before < seen ? seen : before;
  }
}

template <class Weights, class Gradient>
[[gnu::always_inline]] inline bool run(const AdamWFactors& factors, const AdamWChunk& c,
                                       const Weights& weights, const Gradient& gradient) {
  const AdamWFactors f = factors;  // a copy that no store can change
  const Fetches fetches(c);
  const std::size_t pieces = c.count / kPiece;
  Largest largest{};
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    for (std::size_t block = 0; block < kBlocks; ++block) {
      if (piece + 1 < pieces) fetches.fetch(block, piece + 1);
      const std::size_t begin = piece * kPiece + block * kBlock;
      update(f, weights, gradient, c.m, c.v, begin, kBlock, largest);
    }
  }
  for (std::size_t begin = pieces * kPiece; begin < c.count; begin += kBlock) {
    update(f, weights, gradient, c.m, c.v, begin, std::min(kBlock, c.count - begin), largest);
  }
  return *std::max_element(largest.begin(), largest.end()) < Weights::kLimit;
}

[[gnu::always_inline]] inline bool run(const AdamWFactors& factors, const AdamWChunk& c) {
  const SplitWeights split{c.hi, c.lo};
  const FullWeights full{c.weight};
  const FloatGradient fp32{c.gradient};
  const Bf16Gradient bf16{c.gradient_bf16};
  if (c.weight != nullptr) {
    return c.gradient != nullptr ? run(factors, c, full, fp32) : run(factors, c, full, bf16);
  }
  return c.gradient != nullptr ? run(factors, c, split, fp32) : run(factors, c, split, bf16);
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
  const std::uint32_t limit = full ? FullWeights::kLimit : SplitWeights::kLimit;
  return (w & kMagnitude) < limit && std::bit_cast<std::uint32_t>(chunk.v[i]) < limit;
}

}  // namespace ferry
