// How many of a micro-batch's tokens a block's kernels take at a time, where what lies between its
// products is wide: the head's logits, an MLP's projections.
//
// Functions of the model and the batch alone: so sums have one order on every machine, and plans
// count what runs compute. (A head whose device has a kernel for cross-entropies takes more:
// model/head.h.)
#pragma once

#include <cstdint>
#include <vector>

#include "spec/model_spec.h"

namespace ferry {

/// Neighbouring tokens of a micro-batch.
struct RowChunk {
  std::int64_t first = 0;
  std::int64_t rows = 0;

  bool operator==(const RowChunk&) const = default;
};

/// All tokens, in chunks of `rows`; the last may be smaller. Requires: rows > 0.
std::vector<RowChunk> row_chunks(std::int64_t tokens, std::int64_t rows);

/// Rows of the largest of nearly equal chunks, each of at most `most`. Requires: both > 0.
std::int64_t nearly_equal_rows(std::int64_t tokens, std::int64_t most);

/// A chunk for which the fp32 logits take at most a quarter of the head's fp32 gradient sum or
/// 4 MiB, whichever is larger, and no fewer than 32 tokens. A micro-batch is cut into chunks of
/// nearly equal size.
std::int64_t head_chunk_rows(const ModelSpec& model, BatchShape shape);

/// A chunk for which an MLP's projections, in fp32, take at most as much as the block's fp32
/// gradient sum: 1.5 rows per hidden unit where it is gated, else 2. Up to 4096 tokens are one
/// chunk whatever the model: each reads the weights and adds their gradients to the sum, some 12
/// bytes per weight, which a GPU hides behind thousands of rows only. A micro-batch is cut into
/// chunks of nearly equal size.
std::int64_t mlp_chunk_rows(const ModelSpec& model, BatchShape shape);

}  // namespace ferry
