// GPT-2: layer norms, learned positions, one product for queries, keys and values, a plain MLP,
// biases throughout, weights stored [in, out].
#include "spec/families/family.h"

namespace ferry {
namespace {

void read_gpt2(const Config& config, ModelSpec& model) {
  // transformers takes these names for each other.
  const auto size = [&config](const char* name, const char* alias, std::int64_t fallback) {
    return config.size(name, config.size(alias, fallback));
  };
  model.hidden = size("n_embd", "hidden_size", 768);
  model.layers = size("n_layer", "num_hidden_layers", 12);
  model.heads = size("n_head", "num_attention_heads", 12);
  model.kv_heads = model.heads;
  model.head_dim = even_head_dim(config, model);
  model.intermediate = config.size("n_inner", 4 * model.hidden);
  model.vocab = config.size("vocab_size", 50257);
  model.max_positions = size("n_positions", "max_position_embeddings", 1024);
  model.norm = NormKind::layer;
  model.norm_epsilon = config.not_negative("layer_norm_epsilon", 1e-5);
  model.positions = PositionKind::learned;
  model.activation = config.activation("activation_function", "gelu_new");
  model.input_first = model.fused_qkv = true;
  model.qkv_bias = model.output_bias = model.mlp_bias = true;
  model.gated_mlp = false;
  model.tied = config.flag("tie_word_embeddings", true);
  model.names = {.body = "transformer.",
                 .layers = "h.",
                 .tokens = "wte",
                 .positions = "wpe",
                 .attention_norm = "ln_1",
                 .qkv = "attn.c_attn",
                 .output = "attn.c_proj",
                 .mlp_norm = "ln_2",
                 .up = "mlp.c_fc",
                 .down = "mlp.c_proj",
                 .final_norm = "ln_f"};
  if (!config.flag("scale_attn_weights", true)) {
    config.refuse("'scale_attn_weights' false is not supported");
  }
  for (const char* key : {"scale_attn_by_inverse_layer_idx", "add_cross_attention"}) {
    if (config.flag(key, false)) config.refuse("'" + std::string(key) + "' is not supported");
  }
}

}  // namespace

extern const Family gpt2_family{"gpt2", read_gpt2};

}  // namespace ferry
