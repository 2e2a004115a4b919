// Reads a Hugging Face config.json: transformers 4 writes rope_theta and rope_scaling beside each
// other, transformers 5 one rope_parameters; everything else has the same names in both.
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "spec/model_spec.h"

namespace ferry {
namespace {

using Json = nlohmann::json;

// Larger values are slips of the pen, and with this bound no product of three of them overflows.
constexpr std::int64_t kLargestSize = std::int64_t{1} << 20;

/// One JSON object with typed access. `where` starts every message: file, then the path inside it.
class Section {
 public:
  Section(const Json& json, std::string where) : json_(&json), where_(std::move(where)) {}

  [[noreturn]] void refuse(const std::string& problem) const {
    throw UserError(where_ + ": " + problem);
  }

  /// True when the key is there and not null; transformers takes null for "not given".
  bool has(const std::string& key) const { return json_->contains(key) && !value(key).is_null(); }
  bool is_null(const std::string& key) const {
    return json_->contains(key) && value(key).is_null();
  }

  std::int64_t size(const std::string& key, std::int64_t fallback) const {
    if (!has(key)) return fallback;
    const Json& found = value(key);
    if (!found.is_number_integer() || found < 1 || found > kLargestSize * 1024) {
      refuse_value(key, "a positive integer");
    }
    return found.get<std::int64_t>();
  }
  double positive(const std::string& key, std::optional<double> fallback) const {
    if (!has(key)) {
      if (!fallback) refuse("'" + key + "' is missing; expected a positive number");
      return *fallback;
    }
    const Json& found = value(key);
    if (!found.is_number() || !(found.get<double>() > 0)) refuse_value(key, "a positive number");
    return found.get<double>();
  }
  bool flag(const std::string& key, bool fallback) const {
    if (!has(key)) return fallback;
    if (!value(key).is_boolean()) refuse_value(key, "true or false");
    return value(key).get<bool>();
  }
  std::string text(const std::string& key, const std::string& fallback) const {
    if (!has(key)) return fallback;
    if (!value(key).is_string()) refuse_value(key, "a string");
    return value(key).get<std::string>();
  }
  std::vector<std::string> texts(const std::string& key) const {
    if (!has(key)) return {};
    std::vector<std::string> result;
    if (!value(key).is_array()) refuse_value(key, "a list of strings");
    for (const Json& item : value(key)) {
      if (!item.is_string()) refuse_value(key, "a list of strings");
      result.push_back(item.get<std::string>());
    }
    return result;
  }
  /// The object under `key`, or nothing.
  std::optional<Section> section(const std::string& key) const {
    if (!has(key)) return std::nullopt;
    if (!value(key).is_object()) refuse_value(key, "an object");
    return Section(value(key), where_ + ": " + key);
  }

  [[noreturn]] void refuse_value(const std::string& key, const std::string& expected) const {
    refuse("'" + key + "' must be " + expected + "; found " + value(key).dump());
  }

 private:
  const Json& value(const std::string& key) const { return (*json_)[key]; }

  const Json* json_;  // never null; the parsed file outlives its sections
  std::string where_;
};

Family read_family(const Section& config) {
  constexpr std::string_view kSupported = "gpt2, llama, mistral, qwen2, qwen3";
  if (!config.has("model_type")) {
    config.refuse("'model_type' is missing; expected one of " + std::string(kSupported));
  }
  const std::string name = config.text("model_type", "");
  for (const Family family :
       {Family::gpt2, Family::llama, Family::mistral, Family::qwen2, Family::qwen3}) {
    if (name == to_string(family)) return family;
  }
  config.refuse("model_type '" + name + "' is not supported; ferry has " + std::string(kSupported));
}

/// Refuses what shares the family's name but is another model, or stores other weights.
void check_is_language_model(const Section& config) {
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

Activation read_activation(const Section& config, const std::string& key,
                           const std::string& fallback) {
  const std::string name = config.text(key, fallback);
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return Activation::gelu_tanh;
  if (name == "gelu") return Activation::gelu;
  if (name == "relu") return Activation::relu;
  if (name == "silu" || name == "swish") return Activation::silu;
  config.refuse_value(key, "one of gelu_new, gelu_pytorch_tanh, gelu, relu, silu, swish");
}

/// What transformers assumes where a Llama-like config.json says nothing.
struct Defaults {
  std::int64_t vocab;
  std::int64_t intermediate;
  std::optional<std::int64_t> kv_heads;  // nothing: as many as heads
  std::optional<std::int64_t> head_dim;  // nothing: hidden / heads
  std::int64_t max_positions;
};

Defaults defaults_of(Family family) {
  switch (family) {
    case Family::mistral:
      return {32000, 14336, 8, std::nullopt, 131072};
    case Family::qwen2:
      return {151936, 22016, 32, std::nullopt, 32768};
    case Family::qwen3:
      return {151936, 22016, 32, 128, 32768};
    default:
      return {32000, 11008, std::nullopt, std::nullopt, 2048};
  }
}

Rope read_rope(const Section& config, std::int64_t max_positions) {
  Rope rope;
  rope.theta = config.positive("rope_theta", 10000.0);
  double rotated = config.positive("partial_rotary_factor", 1.0);
  auto scaling = config.section("rope_scaling");
  if (!scaling) scaling = config.section("rope_parameters");
  if (scaling) {
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

/// The sliding window, or 0. Mistral slides in every layer; Qwen only when told to, and then from
/// layer max_window_layers on, or where layer_types says so.
std::int64_t read_window(const Section& config, Family family, std::int64_t layers) {
  bool slides = family == Family::mistral;
  if (family == Family::qwen2 || family == Family::qwen3) {
    const std::vector<std::string> types = config.texts("layer_types");
    slides = types.empty() && config.size("max_window_layers", 28) < layers;
    for (const std::string& type : types) {
      if (type == "sliding_attention") {
        slides = true;
      } else if (type != "full_attention") {
        config.refuse_value("layer_types", "full_attention or sliding_attention throughout");
      }
    }
    slides = slides && config.flag("use_sliding_window", false);
  }
  if (!slides || config.is_null("sliding_window")) return 0;
  return config.size("sliding_window", 4096);
}

void read_gpt2(const Section& config, ModelSpec& model) {
  // transformers takes these names for each other.
  const auto size = [&config](const char* name, const char* alias, std::int64_t fallback) {
    return config.size(name, config.size(alias, fallback));
  };
  model.hidden = size("n_embd", "hidden_size", 768);
  model.layers = size("n_layer", "num_hidden_layers", 12);
  model.heads = size("n_head", "num_attention_heads", 12);
  model.kv_heads = model.heads;
  model.head_dim = model.hidden / model.heads;
  model.intermediate = config.size("n_inner", 4 * model.hidden);
  model.vocab = config.size("vocab_size", 50257);
  model.max_positions = size("n_positions", "max_position_embeddings", 1024);
  model.norm_epsilon = config.positive("layer_norm_epsilon", 1e-5);
  model.activation = read_activation(config, "activation_function", "gelu_new");
  model.qkv_bias = model.output_bias = model.mlp_bias = true;
  model.tied = config.flag("tie_word_embeddings", true);
  model.body_prefix = "transformer.";
  if (!config.flag("scale_attn_weights", true)) {
    config.refuse("'scale_attn_weights' false is not supported");
  }
  for (const char* key : {"scale_attn_by_inverse_layer_idx", "add_cross_attention"}) {
    if (config.flag(key, false)) config.refuse("'" + std::string(key) + "' is not supported");
  }
}

void read_llama(const Section& config, ModelSpec& model) {
  const Defaults defaults = defaults_of(model.family);
  model.hidden = config.size("hidden_size", 4096);
  model.layers = config.size("num_hidden_layers", 32);
  model.heads = config.size("num_attention_heads", 32);
  model.kv_heads =
      config.is_null("num_key_value_heads")
          ? model.heads
          : config.size("num_key_value_heads", defaults.kv_heads.value_or(model.heads));
  const std::int64_t even_share = model.hidden / model.heads;
  model.head_dim = config.is_null("head_dim")
                       ? even_share
                       : config.size("head_dim", defaults.head_dim.value_or(even_share));
  model.intermediate = config.size("intermediate_size", defaults.intermediate);
  model.vocab = config.size("vocab_size", defaults.vocab);
  model.max_positions = config.size("max_position_embeddings", defaults.max_positions);
  model.window = read_window(config, model.family, model.layers);
  model.norm_epsilon = config.positive("rms_norm_eps", 1e-6);
  model.rope = read_rope(config, model.max_positions);
  model.activation = read_activation(config, "hidden_act", "silu");
  // Only Llama and Qwen3 let the configuration decide.
  const bool choose = model.family == Family::llama || model.family == Family::qwen3;
  model.output_bias = choose && config.flag("attention_bias", false);
  model.qkv_bias = model.output_bias || model.family == Family::qwen2;
  model.mlp_bias = model.family == Family::llama && config.flag("mlp_bias", false);
  model.qk_norm = model.family == Family::qwen3;
  model.tied = config.flag("tie_word_embeddings", false);
  model.body_prefix = "model.";
}

void check_shape(const Section& config, const ModelSpec& model) {
  for (const std::int64_t size :
       {model.hidden, model.layers, model.heads, model.head_dim, model.intermediate, model.vocab}) {
    if (size > kLargestSize) {
      config.refuse("a size of " + std::to_string(size) + " is beyond what ferry takes, " +
                    std::to_string(kLargestSize));
    }
  }
  const bool free_head_dim = config.has("head_dim") || model.family == Family::qwen3;
  if (!free_head_dim && model.hidden % model.heads != 0) {
    config.refuse("the hidden size " + std::to_string(model.hidden) +
                  " is not a multiple of the heads, " + std::to_string(model.heads));
  }
  if (model.heads % model.kv_heads != 0) {
    config.refuse("'num_key_value_heads' must divide the heads, " + std::to_string(model.heads) +
                  "; found " + std::to_string(model.kv_heads));
  }
  if (model.family != Family::gpt2 && model.head_dim % 2 != 0) {
    config.refuse("'head_dim' must be even for rotary positions; found " +
                  std::to_string(model.head_dim));
  }
}

}  // namespace

ModelSpec parse_model_spec(const std::string& json, const std::string& source) {
  Json parsed;
  try {
    parsed = Json::parse(json);
  } catch (const Json::parse_error& error) {
    throw UserError(source + ": expected JSON: " + error.what());
  }
  if (!parsed.is_object()) throw UserError(source + ": expected a JSON object");
  const Section config(parsed, source);

  ModelSpec model;
  model.family = read_family(config);
  check_is_language_model(config);
  if (model.family == Family::gpt2) {
    read_gpt2(config, model);
  } else {
    read_llama(config, model);
  }
  check_shape(config, model);
  build_blocks(model);
  return model;
}

ModelSpec read_model_spec(const std::filesystem::path& directory_or_file) {
  const std::filesystem::path file = std::filesystem::is_directory(directory_or_file)
                                         ? directory_or_file / "config.json"
                                         : directory_or_file;
  std::ifstream stream(file);
  if (!stream) {
    throw UserError(file.string() +
                    ": cannot be read; expected a Hugging Face config.json or its directory");
  }
  const std::string json{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  return parse_model_spec(json, file.string());
}

}  // namespace ferry
