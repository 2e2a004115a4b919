// Causal attention over packed documents, between its norm and its output projection.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "model/positions.h"
#include "spec/model_spec.h"

namespace ferry {

/// Queries, keys and values of `normed` [batch, time, hidden], normed and turned where the model
/// says so, and each document's attention. `weights` are those between norm and output projection.
/// Returns [rows, length, heads, head_dim] of all documents in turn.
std::vector<at::Tensor> project_attention(const ModelSpec& model, const at::Tensor& normed,
                                          std::span<const at::Tensor> weights,
                                          const Positions& positions);

/// What the output projection reads, [tokens, heads * head_dim].
at::Tensor join_attention(const std::vector<at::Tensor>& documents);

}  // namespace ferry
