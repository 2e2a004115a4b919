#include "spec/families/llama_like.h"

#include <string>
#include <vector>

namespace ferry {
namespace {

/// transformers 4 writes rope_theta and rope_scaling beside each other, transformers 5 one
/// rope_parameters.
Rope read_rope(const Config& config, std::int64_t max_positions) {
  Rope rope;
  rope.theta = config.positive("rope_theta", 10000.0);
  double rotated = config.positive("partial_rotary_factor", 1.0);
  auto scaling = config.section("rope_scaling");
  if (!scaling || scaling->empty()) scaling = config.section("rope_parameters");
  if (scaling) {
    if (const auto name = scaling->first_section()) {
      scaling->refuse("'" + *name +
                      "' has a section of its own; ferry has one rope for all layers");
    }
    rope.theta = scaling->positive("rope_theta", rope.theta);
    rotated = scaling->positive("partial_rotary_factor", rotated);
    const std::string kind = scaling->text("rope_type", scaling->text("type", "default"));
    if (kind == "linear") {
      rope.scaling = Rope::Scaling::linear;
      rope.factor = scaling->positive("factor", std::nullopt);
    } else if (kind == "llama3") {
      rope.scaling = Rope::Scaling::llama3;
      rope.factor = scaling->positive("factor", std::nullopt);
      rope.low_frequency_factor = scaling->positive("low_freq_factor", std::nullopt);
      rope.high_frequency_factor = scaling->positive("high_freq_factor", std::nullopt);
      rope.original_positions =
          config.size("original_max_position_embeddings",
                      scaling->size("original_max_position_embeddings", max_positions));
      if (rope.high_frequency_factor <= rope.low_frequency_factor) {
        scaling->refuse_value("high_freq_factor", "larger than low_freq_factor");
      }
    } else if (kind != "default" && kind != "dynamic") {
      scaling->refuse("rope scaling '" + kind +
                      "' is not supported; ferry has default, linear, dynamic, llama3");
    }
  }
  if (rotated != 1.0) {
    config.refuse("'partial_rotary_factor' " + std::to_string(rotated) +
                  " is not supported; expected 1.0");
  }
  return rope;
}

std::int64_t read_head_dim(const Config& config, const LlamaDefaults& defaults,
                           const ModelSpec& model) {
  if (config.has("head_dim")) return config.size("head_dim", 1);
  if (defaults.head_dim && !config.is_null("head_dim")) return *defaults.head_dim;
  return even_head_dim(config, model);
}

}  // namespace

void read_llama_like(const Config& config, const LlamaDefaults& defaults, ModelSpec& model) {
  model.hidden = config.size("hidden_size", 4096);
  model.layers = config.size("num_hidden_layers", 32);
  model.heads = config.size("num_attention_heads", 32);
  model.kv_heads =
      config.is_null("num_key_value_heads")
          ? model.heads
          : config.size("num_key_value_heads", defaults.kv_heads.value_or(model.heads));
  model.head_dim = read_head_dim(config, defaults, model);
  model.intermediate = config.size("intermediate_size", defaults.intermediate);
  model.vocab = config.size("vocab_size", defaults.vocab);
  model.max_positions = config.size("max_position_embeddings", defaults.max_positions);
  model.norm = NormKind::rms;
  model.norm_epsilon = config.not_negative("rms_norm_eps", 1e-6);
  model.positions = PositionKind::rotary;
  model.rope = read_rope(config, model.max_positions);
  model.activation = config.activation("hidden_act", "silu");
  model.gated_mlp = true;
  model.tied = config.flag("tie_word_embeddings", false);
  model.padding = config.token("pad_token_id", model.vocab);
  model.names = {.body = "model.",
                 .layers = "layers.",
                 .tokens = "embed_tokens",
                 .attention_norm = "input_layernorm",
                 .query = "self_attn.q_proj",
                 .key = "self_attn.k_proj",
                 .value = "self_attn.v_proj",
                 .query_norm = "self_attn.q_norm",
                 .key_norm = "self_attn.k_norm",
                 .output = "self_attn.o_proj",
                 .mlp_norm = "post_attention_layernorm",
                 .gate = "mlp.gate_proj",
                 .up = "mlp.up_proj",
                 .down = "mlp.down_proj",
                 .final_norm = "norm"};
}

std::int64_t sliding_window(const Config& config) {
  return config.is_null("sliding_window") ? 0 : config.size("sliding_window", 4096);
}

std::int64_t qwen_sliding_window(const Config& config, std::int64_t layers) {
  const std::vector<std::string> types = config.texts("layer_types");
  bool slides = types.empty() && config.count("max_window_layers", 28) < layers;
  for (const std::string& type : types) {
    if (type == "sliding_attention") {
      slides = true;
    } else if (type != "full_attention") {
      config.refuse_value("layer_types", "full_attention or sliding_attention throughout");
    }
  }
  return slides && config.flag("use_sliding_window", false) ? sliding_window(config) : 0;
}

}  // namespace ferry
