// How a block's tensors lie inside its values: the contract between planner (sizes) and trainer
// (views).
//
// Every tensor starts at a multiple of kTensorAlignment, at the same element offset in every part:
//   W.b  bf16: hi16[elements]            fp32: master[elements]
//   S.b  bf16: lo16[elements] m32 v32    fp32: m32[elements] v32
//   G.b  fp32 sum[elements]; a tied head's G holds the gradient of the weight it reads
//   R.b  bf16 sum[elements]
// The padding between tensors is never read. X.m is ids and labels, both int64 [batch, time].
//
// S.b may be in pieces: each is laid out as S.b is, of its own elements alone, which follow those
// of the piece before. All have as many but the last.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "spec/model_spec.h"
#include "spec/precision.h"

namespace ferry {

/// Elements: 128 bytes in bf16, whole cache lines for the update.
inline constexpr std::int64_t kTensorAlignment = 64;

struct BlockLayout {
  std::vector<std::int64_t> offsets;  // in elements, one per parameter
  std::int64_t elements = 0;          // of one part, padding included
};

/// The layout of `block`'s own parameters.
BlockLayout layout_of(const BlockSpec& block);

/// The layout of G.b: its own parameters, or for a tied head those of the weight it reads.
BlockLayout gradient_layout_of(const ModelSpec& model, const BlockSpec& block);

/// Bytes per element of the compute weights: 2 in bf16, 4 in fp32.
std::int64_t weight_element_bytes(Precision precision);

/// Bytes per element of the optimizer state: 10 in bf16, 8 in fp32.
std::int64_t state_element_bytes(Precision precision);

/// A piece of S.b has a multiple of so many elements, whole pages in either precision, but for the
/// last one.
inline constexpr std::int64_t kStatePieceElements = 2048;

Bytes weight_bytes(const BlockLayout& layout, Precision precision);
Bytes state_bytes(const BlockLayout& layout, Precision precision);
Bytes gradient_bytes(const BlockLayout& layout);
Bytes rounded_bytes(const BlockLayout& layout);
Bytes tokens_bytes(BatchShape shape);

/// An update on a device goes in pieces of this many elements: 1 MiB per fp32 temporary.
inline constexpr std::int64_t kUpdatePieceElements = 1 << 18;

/// The most that an update on a device allocates beside W, S and G: four fp32 temporaries.
Bytes device_update_workspace(const BlockLayout& layout);

}  // namespace ferry
