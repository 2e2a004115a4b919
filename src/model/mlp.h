// The MLP, gated or plain, between its norm and its last projection.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "spec/model_spec.h"

namespace ferry {

/// The projections of `normed` [batch, time, hidden]: gate and up, or up alone, each [tokens,
/// intermediate]. `weights` are those between norm and last projection.
std::vector<at::Tensor> project_mlp(const ModelSpec& model, const at::Tensor& normed,
                                    std::span<const at::Tensor> weights);

/// What the last projection reads, [tokens, intermediate]. Takes the projections, so that what is
/// used up is free.
at::Tensor join_mlp(const ModelSpec& model, std::vector<at::Tensor> projections);

}  // namespace ferry
