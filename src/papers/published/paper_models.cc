#include "papers/published/paper_models.h"

#include "base/error.h"
#include "spec/nearest.h"

namespace ferry {
namespace {

std::string field(const std::string& name, int value) {
  return ", \"" + name + "\": " + std::to_string(value);
}

struct GptSize {
  const char* name;
  int layers;
  int heads;
  int hidden;
};

constexpr int kGptVocab = 50257;

// Ratel, table of models; "65B" in its Fig 8 is the 70B row. Names are the paper's: the geometry
// has 12.8, 30.0, 64.8, 134.6 and 174.6 billion parameters for 13B to 175B.
constexpr GptSize kRatel[] = {
    {"ratel-6b", 28, 32, 4096},      {"ratel-13b", 40, 40, 5120},     {"ratel-30b", 48, 56, 7168},
    {"ratel-70b", 80, 64, 8192},     {"ratel-135b", 88, 88, 11264},   {"ratel-175b", 96, 96, 12288},
    {"ratel-276b", 112, 112, 14336}, {"ratel-412b", 128, 128, 16384},
};

// Mobius names the sizes of its GPT models; layers and widths here are our choice for them.
constexpr GptSize kMobius[] = {
    {"mobius-3b", 24, 24, 3072},
    {"mobius-8b", 40, 32, 4096},
    {"mobius-15b", 48, 40, 5120},
    {"mobius-51b", 64, 64, 8192},
};

// RoundPipe's models: what their published config.json files say of their geometry.
constexpr const char* kLlama8b = R"({
  "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096,
  "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
  "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072,
  "rms_norm_eps": 1e-5, "tie_word_embeddings": false, "rope_theta": 500000.0,
  "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                   "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}})";
constexpr const char* kQwen17b = R"({
  "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": 2048,
  "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
  "intermediate_size": 6144, "vocab_size": 151936, "max_position_embeddings": 40960,
  "rms_norm_eps": 1e-6, "tie_word_embeddings": true, "rope_theta": 1000000.0})";
constexpr const char* kQwen32b = R"({
  "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": 5120,
  "num_hidden_layers": 64, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128,
  "intermediate_size": 25600, "vocab_size": 151936, "max_position_embeddings": 40960,
  "rms_norm_eps": 1e-6, "tie_word_embeddings": false, "rope_theta": 1000000.0})";

std::vector<PaperModel> all_models() {
  std::vector<PaperModel> models;
  const auto add_gpt = [&models](const GptSize& size, const std::string& source) {
    models.push_back(
        {size.name, source, gpt_geometry(size.layers, size.heads, size.hidden, kGptVocab)});
  };
  for (const GptSize& size : kMobius) add_gpt(size, "Mobius's size, our layers and width");
  for (const GptSize& size : kRatel) add_gpt(size, "Ratel (ICDE 2025), table of models");
  const auto add = [&models](const std::string& name, const char* json) {
    models.push_back({name, "its published config.json", parse_model_spec(json, name)});
  };
  add("qwen3-1.7b", kQwen17b);
  add("llama3.1-8b", kLlama8b);
  add("qwen3-32b", kQwen32b);
  return models;
}

}  // namespace

ModelSpec gpt_geometry(int layers, int heads, int hidden, int vocab) {
  const std::string name =
      "gpt " + std::to_string(layers) + "/" + std::to_string(heads) + "/" + std::to_string(hidden);
  return parse_model_spec(R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"])" +
                              field("n_layer", layers) + field("n_head", heads) +
                              field("n_embd", hidden) + field("vocab_size", vocab) +
                              field("n_positions", 1024) + "}",
                          name);
}

const std::vector<PaperModel>& paper_models() {
  static const std::vector<PaperModel> models = all_models();
  return models;
}

const ModelSpec& paper_model(const std::string& name) {
  std::vector<std::string> names;
  for (const PaperModel& model : paper_models()) {
    if (model.name == name) return model.spec;
    names.push_back(model.name);
  }
  const std::string meant = nearest(name, names);
  std::string message = "unknown paper model '" + name + "'";
  if (!meant.empty()) {
    message += "; did you mean '" + meant + "'?";
  } else {
    message += "; expected one of";
    for (const std::string& known : names) message += " " + known;
  }
  throw UserError(message);
}

}  // namespace ferry
