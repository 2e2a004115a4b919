// The tensors of a model's parameters in a checkpoint of weights. Reads headers only, where nothing
// else is said; needs no torch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "base/progress.h"
#include "data/safetensors.h"
#include "spec/model_spec.h"

namespace ferry {

/// The tensor of a parameter, under its full name or that of the bare model; a tied model's
/// embedding also under the head's. Throws UserError when there is none, or it has another shape or
/// a type that ferry does not read.
const TensorEntry& weight_of(const Checkpoint& checkpoint, const ModelSpec& model,
                             const ParamSpec& param);

/// Throws UserError unless the folder's weights are whole: sound headers, every shard, every
/// parameter of the model, and no layer or bias that config.json leaves out. Of a tied head that is
/// there all the same the beginning is read, which nearly always tells: see below.
void require_weights(const std::filesystem::path& folder, const ModelSpec& model);

/// Throws UserError when the model is tied and the checkpoint has a head of its own that is not the
/// embedding's weight. Reads the first `elements` of both, in 1 MiB of memory.
void require_tied_head(const Checkpoint& checkpoint, const ModelSpec& model,
                       std::int64_t elements = std::numeric_limits<std::int64_t>::max());

/// A warning that names the tensors that are none of the model's, where there are any: a value
/// head, scales of a quantized model. Buffers that transformers computes itself go without saying.
void tell_unknown_tensors(const Checkpoint& checkpoint, const ModelSpec& model,
                          PhaseListener& listener);

/// Throws UserError unless a tensor has the parameter's shape.
void require_shape(const Checkpoint& checkpoint, const TensorEntry& entry, const ParamSpec& param);

/// "[12, 7]": a shape, or where an element is.
std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace ferry
