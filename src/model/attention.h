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

/// Whether keys and values must have as many heads as queries. CUDA's kernels for fp32 know no
/// groups of heads, and what torch does instead takes O(length^2) memory.
bool needs_equal_heads(at::Device device, at::ScalarType type);

/// x [rows, length, groups, head_dim] with each head as often as makes `heads` of them: a group's
/// heads stand together, as its queries do. Differentiable.
at::Tensor repeat_heads(const at::Tensor& x, std::int64_t heads);

}  // namespace ferry
