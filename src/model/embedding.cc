#include "model/embedding.h"

#include <ATen/ATen.h>

#include "base/check.h"

namespace ferry {
namespace {

/// Adds a row per token but those of the padding. Its row is put back: choosing tokens would have a
/// device say how many there are, and masking takes as much memory as the rows.
void add_token_rows(const ModelSpec& model, const at::Tensor& ids, const at::Tensor& rows,
                    at::Tensor sum) {
  if (!model.padding) {
    sum.index_add_(0, ids, rows);
    return;
  }
  const at::Tensor padding = sum.select(0, *model.padding);
  const at::Tensor before = padding.clone();
  sum.index_add_(0, ids, rows);
  padding.copy_(before);
}

}  // namespace

at::Tensor embed(const ModelSpec& model, const at::Tensor& ids, std::span<const at::Tensor> weights,
                 const Positions& positions) {
  const at::Tensor tokens = at::embedding(weights[0], ids);
  if (model.positions != PositionKind::learned) return tokens;
  if (positions.documents.empty()) return tokens + weights[1].narrow(0, 0, ids.size(1));
  return tokens +
         at::embedding(weights[1], document_positions(positions, ids.device()).view(ids.sizes()));
}

std::vector<at::Tensor> embedding_gradients(const ModelSpec& model, const at::Tensor& ids,
                                            std::span<const at::Tensor> weights,
                                            const at::Tensor& dy, const Positions& positions) {
  std::vector<at::Tensor> sums;
  for (const at::Tensor& weight : weights) {
    sums.push_back(at::zeros(weight.sizes(), weight.options().dtype(at::kFloat)));
  }
  add_embedding_gradient(model, ids, dy, sums, positions);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = sums[i].to(weights[i].scalar_type());
  return sums;
}

void add_embedding_gradient(const ModelSpec& model, const at::Tensor& ids, const at::Tensor& dy,
                            std::span<const at::Tensor> sums, const Positions& positions) {
  const bool learned = model.positions == PositionKind::learned;
  FERRY_CHECK(sums.size() == (learned ? 2 : 1), "one sum per weight");
  const at::NoGradGuard no_graph;
  const at::Tensor rows = dy.reshape({-1, model.hidden}).to(at::kFloat);
  add_token_rows(model, ids.reshape({-1}), rows, sums[0]);
  if (!learned) return;
  if (positions.documents.empty()) {
    sums[1].narrow(0, 0, ids.size(1)).add_(rows.view(dy.sizes()).sum(0));
  } else {
    at::Tensor(sums[1]).index_add_(0, document_positions(positions, ids.device()), rows);
  }
}

}  // namespace ferry
