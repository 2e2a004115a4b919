// What the descendants of Llama share: RMS norms before attention and MLP, rotary positions,
// grouped keys, a gated MLP, no biases; one set of keys in config.json and one of parameter names.
#pragma once

#include <cstdint>
#include <optional>

#include "spec/families/config.h"
#include "spec/model_spec.h"

namespace ferry {

/// What transformers assumes where a config.json says nothing.
struct LlamaDefaults {
  std::int64_t vocab = 0;
  std::int64_t intermediate = 0;
  std::int64_t max_positions = 0;
  std::optional<std::int64_t> kv_heads = {};  // nothing: as many as heads
  std::optional<std::int64_t> head_dim = {};  // nothing: hidden / heads
};

/// Fills the model as plain Llama; a family then sets what it has otherwise.
void read_llama_like(const Config& config, const LlamaDefaults& defaults, ModelSpec& model);

/// The length of the sliding window where there is one, or 0.
std::int64_t sliding_window(const Config& config);

/// Qwen's rule: it slides only when told to, and then from layer max_window_layers on, or where
/// layer_types says so.
std::int64_t qwen_sliding_window(const Config& config, std::int64_t layers);

}  // namespace ferry
