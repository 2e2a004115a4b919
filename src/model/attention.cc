#include "model/attention.h"

#include <ATen/ATen.h>
#include <ATen/SDPBackend.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <optional>

#include "model/norm.h"
#include "model/rotary.h"
#include "model/weights.h"

namespace ferry {
namespace {

/// Queries, keys and values, each [tokens, its heads * head_dim].
struct Projected {
  at::Tensor q, k, v;
};

Projected project(const ModelSpec& model, const at::Tensor& x, WeightReader& weights) {
  if (!model.fused_qkv) {
    const at::Tensor q = weights.projection(model.qkv_bias)(x);
    const at::Tensor k = weights.projection(model.qkv_bias)(x);
    return {q, k, weights.projection(model.qkv_bias)(x)};
  }
  const std::int64_t queries = model.heads * model.head_dim;
  const std::int64_t keys = model.kv_heads * model.head_dim;
  const std::vector<at::Tensor> parts =
      weights.projection(model.qkv_bias)(x).split_with_sizes({queries, keys, keys}, 1);
  return {parts[0], parts[1], parts[2]};
}

/// Causal attention of q, k, v [rows, length, heads, head_dim], a document per row.
at::Tensor attend_rows(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const bool grouped = q.size(2) != k.size(2);
  return at::scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
                                          std::nullopt, 0.0, /*is_causal=*/true, std::nullopt,
                                          grouped)
      .transpose(1, 2);
}

/// Whether one call can attend to documents of any lengths: FlashAttention's kernel is there for
/// this device, and torch takes it for rows of this type and width.
bool attends_to_all(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  static const c10::OperatorHandle flash =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::_flash_attention_forward", "");
  const c10::DispatchKey key = c10::computeDispatchKey(q.scalar_type(), at::kStrided, q.device());
  if (!flash.hasKernelForDispatchKey(key)) return false;
  const std::int64_t choice = at::_fused_sdp_choice(
      q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), std::nullopt, 0.0,
      /*is_causal=*/true, std::nullopt, /*enable_gqa=*/q.size(2) != k.size(2));
  return choice == static_cast<std::int64_t>(at::SDPBackend::flash_attention);
}

/// Causal attention of all documents of q, k, v [1, tokens, heads, head_dim].
at::Tensor attend_to_all(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const Positions& positions) {
  const at::Tensor starts = document_starts(positions, q.device());
  const std::int64_t longest = std::ranges::max(positions.documents);
  const auto found = at::_flash_attention_forward(q.squeeze(0), k.squeeze(0), v.squeeze(0), starts,
                                                  starts, longest, longest, 0.0, /*is_causal=*/true,
                                                  /*return_debug_mask=*/false);
  return std::get<0>(found).unsqueeze(0);
}

/// Causal attention of q, k, v [rows, length, heads, head_dim]: of all rows, or all documents, in
/// one call, or one call per document; never a mask: masks cost O(length^2) memory and meet wrong
/// kernels.
std::vector<at::Tensor> attend(const at::Tensor& q, at::Tensor k, at::Tensor v,
                               const Positions& positions) {
  if (q.size(2) != k.size(2) && needs_equal_heads(q.device(), q.scalar_type())) {
    k = repeat_heads(k, q.size(2));
    v = repeat_heads(v, q.size(2));
  }
  if (positions.documents.empty()) return {attend_rows(q, k, v)};
  if (attends_to_all(q, k, v)) return {attend_to_all(q, k, v, positions)};

  const std::vector<at::Tensor> qs = q.split_with_sizes(positions.documents, 1);
  const std::vector<at::Tensor> ks = k.split_with_sizes(positions.documents, 1);
  const std::vector<at::Tensor> vs = v.split_with_sizes(positions.documents, 1);
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < qs.size(); ++i) parts.push_back(attend_rows(qs[i], ks[i], vs[i]));
  return parts;
}

}  // namespace

bool needs_equal_heads(at::Device device, at::ScalarType type) {
  return device.is_cuda() && type == at::kFloat;
}

at::Tensor repeat_heads(const at::Tensor& x, std::int64_t heads) {
  const std::int64_t groups = x.size(2);
  return x.unsqueeze(3)
      .expand({x.size(0), x.size(1), groups, heads / groups, x.size(3)})
      .reshape({x.size(0), x.size(1), heads, x.size(3)});
}

std::vector<at::Tensor> project_attention(const ModelSpec& model, const at::Tensor& normed,
                                          std::span<const at::Tensor> weights,
                                          const Positions& positions) {
  WeightReader reader(model, weights);
  // With documents the rows are laid end to end, so that they may cross a row's end.
  const std::int64_t rows = positions.documents.empty() ? normed.size(0) : 1;
  const auto by_head = [&](const at::Tensor& projected) {
    return projected.view({rows, -1, projected.size(1) / model.head_dim, model.head_dim});
  };

  auto [q, k, v] = project(model, normed.view({-1, model.hidden}), reader);
  q = by_head(q);
  k = by_head(k);
  v = by_head(v);
  if (model.qk_norm) {
    q = rms_norm(q, reader.next(), model.norm_epsilon);
    k = rms_norm(k, reader.next(), model.norm_epsilon);
  }
  if (model.positions == PositionKind::rotary) {
    const RotaryTable table = rotary_rows(model, normed.size(1), positions, normed.options());
    q = rotate(q, table);
    k = rotate(k, table);
  }
  return attend(q, k, v, positions);
}

at::Tensor join_attention(const std::vector<at::Tensor>& documents) {
  const at::Tensor all = documents.size() == 1 ? documents[0] : at::cat(documents, 1);
  return all.reshape({all.size(0) * all.size(1), -1});
}

}  // namespace ferry
