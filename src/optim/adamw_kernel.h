// The arithmetic of one chunk, once per instruction set. All variants give the same bits; the tests
// compare them. Internal to optim/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "optim/adamw.h"

namespace ferry {

/// One chunk as raw arrays of `count` elements that do not overlap. Either `weight` or both of `hi`
/// and `lo` are set, and one of the two gradients.
struct AdamWChunk {
  std::uint16_t* hi = nullptr;
  std::uint16_t* lo = nullptr;
  float* weight = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  const float* gradient = nullptr;
  const std::uint16_t* gradient_bf16 = nullptr;
  std::size_t count = 0;
};

/// Updates one chunk. Returns whether every result is finite.
using AdamWKernel = bool (*)(const AdamWFactors& factors, const AdamWChunk& chunk);

/// The kernels that this processor can run, the fastest first; at least one.
std::span<const AdamWKernel> adamw_kernels();

/// Whether element i of an updated chunk is finite, by the kernels' own rule.
bool is_finite(const AdamWChunk& chunk, std::size_t i);

}  // namespace ferry
