// Reads a Hugging Face config.json: finds its family, which reads it (families/), and checks what
// no family may have.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/input_file.h"
#include "base/json.h"
#include "spec/families/family.h"
#include "spec/model_spec.h"
#include "spec/nearest.h"

namespace ferry {
namespace {

constexpr Bytes kLargestConfig = 4_MiB;
constexpr std::int64_t kMostLayers = 1000;

const Family& find_family(const Config& config) {
  if (!config.has("model_type")) {
    config.refuse("'model_type' is missing; expected one of " + joined(family_names()));
  }
  const std::string name = config.text("model_type", "");
  for (const Family& family : families()) {
    if (family.name == name) return family;
  }
  config.refuse("model_type '" + name + "' is not supported; ferry has " + joined(family_names()));
}

/// Refuses what shares the family's name but is another model, or stores other weights.
void check_is_language_model(const Config& config) {
  for (const std::string& name : config.texts("architectures")) {
    const std::size_t task = name.find("For");
    if (task != std::string::npos && name.substr(task) != "ForCausalLM") {
      config.refuse("architecture '" + name +
                    "' is not supported; expected a causal language model");
    }
  }
  if (const auto quantization = config.section("quantization_config")) {
    config.refuse("weights quantized with '" + quantization->text("quant_method", "unknown") +
                  "' are not supported\n  try: a checkpoint in bf16, fp16 or fp32");
  }
}

/// Refuses what transformers reads in every family and ferry in none.
void check_layers(const Config& config) {
  if (!config.flag("is_causal", true)) {
    config.refuse("'is_causal' false is not supported; ferry trains causal language models");
  }
  const auto per_layer = config.section("per_layer_config");
  if (per_layer && !per_layer->empty()) {
    config.refuse("'per_layer_config' is not supported; ferry's layers are alike");
  }
}

void check_shape(const Config& config, const ModelSpec& model) {
  for (const std::int64_t size :
       {model.hidden, model.layers, model.heads, model.head_dim, model.intermediate, model.vocab}) {
    if (size > Config::kLargestSize) {
      config.refuse("a size of " + std::to_string(size) + " is beyond what ferry takes, " +
                    std::to_string(Config::kLargestSize));
    }
  }
  if (model.layers > kMostLayers) {
    config.refuse(std::to_string(model.layers) + " layers are beyond what ferry takes, " +
                  std::to_string(kMostLayers));
  }
  if (model.heads % model.kv_heads != 0) {
    config.refuse("'num_key_value_heads' must divide the heads, " + std::to_string(model.heads) +
                  "; found " + std::to_string(model.kv_heads));
  }
  if (model.positions == PositionKind::rotary && model.head_dim % 2 != 0) {
    config.refuse("'head_dim' must be even for rotary positions; found " +
                  std::to_string(model.head_dim));
  }
}

}  // namespace

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const Family& family : families()) names.emplace_back(family.name);
  return names;
}

ModelSpec parse_model_spec(const std::string& json, const std::string& source) {
  const nlohmann::json parsed = parse_json(json, source);
  if (!parsed.is_object()) throw UserError(source + ": expected a JSON object");
  const Config config(parsed, source);

  const Family& family = find_family(config);
  check_is_language_model(config);
  check_layers(config);
  ModelSpec model;
  family.read(config, model);
  check_shape(config, model);
  build_blocks(model);
  return model;
}

ModelSpec read_model_spec(const std::filesystem::path& directory_or_file) {
  std::error_code ignored;
  const std::filesystem::path file = std::filesystem::is_directory(directory_or_file, ignored)
                                         ? directory_or_file / "config.json"
                                         : directory_or_file;
  if (!std::filesystem::exists(file, ignored)) {
    throw UserError(file.string() +
                    ": cannot be read; expected a Hugging Face config.json or its directory");
  }
  return parse_model_spec(read_file(file, kLargestConfig), file.string());
}

}  // namespace ferry
