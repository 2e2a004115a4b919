// The embedding: a row per token, and with learned positions a row per position.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "model/positions.h"
#include "spec/model_spec.h"

namespace ferry {

/// ids [batch, time] -> [batch, time, hidden]
at::Tensor embed(const ModelSpec& model, const at::Tensor& ids, std::span<const at::Tensor> weights,
                 const Positions& positions);

/// The gradients of the weights, in their order, type and shape, given dy [batch, time, hidden].
std::vector<at::Tensor> embedding_gradients(const ModelSpec& model, const at::Tensor& ids,
                                            std::span<const at::Tensor> weights,
                                            const at::Tensor& dy, const Positions& positions);

/// Adds the embedding's gradients to `sums`, fp32 and shaped like the embedding's params, touching
/// only the rows that ids [batch, time] name, and of these not the padding's. What
/// embedding_gradients() returns holds the whole table for every micro-batch; this holds one row
/// per token.
void add_embedding_gradient(const ModelSpec& model, const at::Tensor& ids, const at::Tensor& dy,
                            std::span<const at::Tensor> sums, const Positions& positions = {});

}  // namespace ferry
