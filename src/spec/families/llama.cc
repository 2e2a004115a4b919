// Llama 1 to 3.x: biases are the configuration's choice.
#include "spec/families/family.h"
#include "spec/families/llama_like.h"

namespace ferry {
namespace {

void read_llama(const Config& config, ModelSpec& model) {
  read_llama_like(config, {.vocab = 32000, .intermediate = 11008, .max_positions = 2048}, model);
  model.qkv_bias = model.output_bias = config.flag("attention_bias", false);
  model.mlp_bias = config.flag("mlp_bias", false);
}

}  // namespace

extern const Family llama_family{"llama", read_llama};

}  // namespace ferry
