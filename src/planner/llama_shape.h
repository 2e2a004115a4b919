// A Llama-type model of a shape, without weights, for tests and benchmarks of the planner.
#pragma once

#include <string>

#include "spec/model_spec.h"

namespace ferry {

struct LlamaShape {
  const char* name;
  int hidden, layers, heads, kv_heads, inner, vocab;
};

inline ModelSpec model_of(const LlamaShape& shape) {
  const auto field = [](const char* name, int value) {
    return std::string(", \"") + name + "\": " + std::to_string(value);
  };
  return parse_model_spec(
      R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "rms_norm_eps": 1e-6,
          "max_position_embeddings": 32768, "tie_word_embeddings": false)" +
          field("hidden_size", shape.hidden) + field("num_hidden_layers", shape.layers) +
          field("num_attention_heads", shape.heads) + field("num_key_value_heads", shape.kv_heads) +
          field("intermediate_size", shape.inner) + field("vocab_size", shape.vocab) + "}",
      shape.name);
}

}  // namespace ferry
