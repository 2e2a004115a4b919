#include "spec/row_chunks.h"

#include <algorithm>

#include "base/check.h"

namespace ferry {

std::vector<RowChunk> row_chunks(std::int64_t tokens, std::int64_t rows) {
  FERRY_CHECK(rows > 0, "chunks have at least one token");
  std::vector<RowChunk> chunks;
  for (std::int64_t first = 0; first < tokens; first += rows) {
    chunks.push_back({first, std::min(rows, tokens - first)});
  }
  return chunks;
}

std::int64_t nearly_equal_rows(std::int64_t tokens, std::int64_t most) {
  const std::int64_t chunks = (tokens + most - 1) / most;
  return (tokens + chunks - 1) / chunks;
}

std::int64_t head_chunk_rows(const ModelSpec& model, BatchShape shape) {
  constexpr std::int64_t kLeastLogits = std::int64_t{1} << 20;  // elements: 4 MiB
  constexpr std::int64_t kLeastRows = 32;
  const std::int64_t elements = std::max(kLeastLogits, model.vocab * model.hidden / 4);
  return nearly_equal_rows(shape.tokens(), std::max(kLeastRows, elements / model.vocab));
}

std::int64_t mlp_chunk_rows(const ModelSpec& model, BatchShape shape) {
  constexpr std::int64_t kLeastRows = 4096;
  const std::int64_t projections = model.gated_mlp ? 2 : 1;
  // rows * projections * intermediate <= (projections + 1) * hidden * intermediate
  const std::int64_t beside_sum = (projections + 1) * model.hidden / projections;
  return nearly_equal_rows(shape.tokens(), std::max(kLeastRows, beside_sum));
}

}  // namespace ferry
