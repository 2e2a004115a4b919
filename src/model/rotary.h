// Rotary position embedding: pairs (i, i + head_dim / 2) of a head turn by an angle that grows with
// the token's position.
#pragma once

#include <ATen/core/Tensor.h>

#include "model/positions.h"
#include "spec/model_spec.h"

namespace ferry {

/// The table of positions 0 to length - 1. Computed in fp32 with the operations of transformers,
/// then rounded to the options' type. Requires: model.positions is rotary.
RotaryTable rotary_table(const ModelSpec& model, std::int64_t length,
                         const at::TensorOptions& options);

/// The rows of a table for rows of `time` tokens, or, when `positions` names documents, for all
/// tokens in turn. Of positions.rotary where that reaches, on the options' device and in their
/// type.
RotaryTable rotary_rows(const ModelSpec& model, std::int64_t time, const Positions& positions,
                        const at::TensorOptions& options);

/// Turns x [rows, length, heads, head_dim]. Differentiable in x.
at::Tensor rotate(const at::Tensor& x, const RotaryTable& table);

}  // namespace ferry
