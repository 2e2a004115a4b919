// Qwen3: norms on queries and keys, heads wider than their share of the hidden size.
#include "spec/families/family.h"
#include "spec/families/llama_like.h"

namespace ferry {
namespace {

void read_qwen3(const Config& config, ModelSpec& model) {
  read_llama_like(config,
                  {.vocab = 151936,
                   .intermediate = 22016,
                   .max_positions = 32768,
                   .kv_heads = 32,
                   .head_dim = 128},
                  model);
  model.window = qwen_sliding_window(config, model.layers);
  model.qkv_bias = model.output_bias = config.flag("attention_bias", false);
  model.qk_norm = true;
}

}  // namespace

extern const Family qwen3_family{"qwen3", read_qwen3};

}  // namespace ferry
