// Qwen2 and Qwen2.5: biases on queries, keys and values.
#include "spec/families/family.h"
#include "spec/families/llama_like.h"

namespace ferry {
namespace {

void read_qwen2(const Config& config, ModelSpec& model) {
  read_llama_like(config,
                  {.vocab = 151936, .intermediate = 22016, .max_positions = 32768, .kv_heads = 32},
                  model);
  model.window = qwen_sliding_window(config, model.layers);
  model.qkv_bias = true;
}

}  // namespace

extern const Family qwen2_family{"qwen2", read_qwen2};

}  // namespace ferry
