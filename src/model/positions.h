// Where tokens stand in their documents.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace ferry {

/// Cosine and sine of the angles that rotary embedding turns by (rotary.h), [length, 1, head_dim /
/// 2]. Undefined for models without it.
struct RotaryTable {
  at::Tensor cosine;
  at::Tensor sine;
};

/// Where documents lie in a micro-batch. A token attends to its own document only, and positions
/// count from the document's start. Right padding may belong to the document before it.
struct Positions {
  /// Lengths of the documents, in the order of the tokens of all rows: they sum to batch * time.
  /// Empty: every row is one document.
  std::vector<std::int64_t> documents;
  /// rotary_table() of the block's device and type, for all calls; undefined, or shorter than the
  /// longest row or document: a call makes its own.
  RotaryTable rotary = {};
};

/// Position of every token in its document, int64 [sum of lengths].
at::Tensor document_positions(const Positions& positions, at::Device device);

/// Where each document begins and the last one ends, int32 [documents + 1]. The copy to the device
/// follows the current stream; nothing waits for it.
at::Tensor document_starts(const Positions& positions, at::Device device);

}  // namespace ferry
