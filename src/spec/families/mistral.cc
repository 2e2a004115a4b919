// Mistral: attention slides in every layer unless the window is null.
#include "spec/families/family.h"
#include "spec/families/llama_like.h"

namespace ferry {
namespace {

void read_mistral(const Config& config, ModelSpec& model) {
  read_llama_like(config,
                  {.vocab = 32000, .intermediate = 14336, .max_positions = 131072, .kv_heads = 8},
                  model);
  model.window = sliding_window(config);
}

}  // namespace

extern const Family mistral_family{"mistral", read_mistral};

}  // namespace ferry
