// Rotary position embedding: pairs (i, i + head_dim / 2) of a head turn by an angle that grows with
// the token's position.
#pragma once

#include <ATen/core/Tensor.h>

#include "model/positions.h"
#include "spec/model_spec.h"

namespace ferry {

/// Cosine and sine of every angle, [length, 1, head_dim / 2].
struct RotaryTable {
  at::Tensor cosine;
  at::Tensor sine;
};

/// The table for rows of `time` tokens, or, when `positions` names documents, for all tokens in
/// turn. Computed in fp32 with the operations of transformers, then rounded to the type of `like`,
/// whose device it is on.
RotaryTable rotary_table(const ModelSpec& model, std::int64_t time, const Positions& positions,
                         const at::Tensor& like);

/// Turns x [rows, length, heads, head_dim]. Differentiable in x.
at::Tensor rotate(const at::Tensor& x, const RotaryTable& table);

}  // namespace ferry
