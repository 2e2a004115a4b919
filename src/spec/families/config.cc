#include "spec/families/config.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace ferry {

using Json = nlohmann::json;

Config::Config(const Json& json, std::string where) : json_(&json), where_(std::move(where)) {}

void Config::refuse(const std::string& problem) const { throw UserError(where_ + ": " + problem); }

void Config::refuse_value(const std::string& key, const std::string& expected) const {
  refuse("'" + key + "' must be " + expected + "; found " + shown(value(key)));
}

bool Config::has(const std::string& key) const {
  return json_->contains(key) && !value(key).is_null();
}

bool Config::is_null(const std::string& key) const {
  return json_->contains(key) && value(key).is_null();
}

std::int64_t Config::size(const std::string& key, std::int64_t fallback) const {
  return whole(key, fallback, 1, "a positive integer");
}

std::int64_t Config::count(const std::string& key, std::int64_t fallback) const {
  return whole(key, fallback, 0, "an integer of at least 0");
}

std::int64_t Config::whole(const std::string& key, std::int64_t fallback, std::int64_t least,
                           const std::string& expected) const {
  if (!has(key)) return fallback;
  const Json& found = value(key);
  if (!found.is_number_integer() || found < least || found > kLargestSize * 1024) {
    refuse_value(key, expected);
  }
  return found.get<std::int64_t>();
}

std::optional<std::int64_t> Config::token(const std::string& key, std::int64_t vocab) const {
  if (!has(key)) return std::nullopt;
  const Json& found = value(key);
  if (!found.is_number_integer() || found < -vocab || found >= vocab) {
    refuse_value(key, "a token below 'vocab_size', " + std::to_string(vocab));
  }
  const auto id = found.get<std::int64_t>();
  return id < 0 ? id + vocab : id;
}

double Config::positive(const std::string& key, std::optional<double> fallback) const {
  if (!has(key)) {
    if (!fallback) refuse("'" + key + "' is missing; expected a positive number");
    return *fallback;
  }
  const Json& found = value(key);
  if (!found.is_number() || !(found.get<double>() > 0)) refuse_value(key, "a positive number");
  return found.get<double>();
}

double Config::not_negative(const std::string& key, double fallback) const {
  if (!has(key)) return fallback;
  const Json& found = value(key);
  if (!found.is_number() || !(found.get<double>() >= 0)) {
    refuse_value(key, "a number of at least 0");
  }
  return found.get<double>();
}

bool Config::flag(const std::string& key, bool fallback) const {
  if (!has(key)) return fallback;
  if (!value(key).is_boolean()) refuse_value(key, "true or false");
  return value(key).get<bool>();
}

std::string Config::text(const std::string& key, const std::string& fallback) const {
  if (!has(key)) return fallback;
  if (!value(key).is_string()) refuse_value(key, "a string");
  return value(key).get<std::string>();
}

std::vector<std::string> Config::texts(const std::string& key) const {
  if (!has(key)) return {};
  std::vector<std::string> result;
  if (!value(key).is_array()) refuse_value(key, "a list of strings");
  for (const Json& item : value(key)) {
    if (!item.is_string()) refuse_value(key, "a list of strings");
    result.push_back(item.get<std::string>());
  }
  return result;
}

std::optional<Config> Config::section(const std::string& key) const {
  if (!has(key)) return std::nullopt;
  if (!value(key).is_object()) refuse_value(key, "an object");
  return Config(value(key), where_ + ": " + key);
}

bool Config::empty() const { return json_->empty(); }

std::optional<std::string> Config::first_section() const {
  for (const auto& [key, found] : json_->items()) {
    if (found.is_object()) return key;
  }
  return std::nullopt;
}

Activation Config::activation(const std::string& key, const std::string& fallback) const {
  const std::string name = text(key, fallback);
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return Activation::gelu_tanh;
  if (name == "gelu") return Activation::gelu;
  if (name == "relu") return Activation::relu;
  if (name == "silu" || name == "swish") return Activation::silu;
  refuse_value(key, "one of gelu_new, gelu_pytorch_tanh, gelu, relu, silu, swish");
}

const Json& Config::value(const std::string& key) const { return (*json_)[key]; }

std::int64_t even_head_dim(const Config& config, const ModelSpec& model) {
  if (model.hidden % model.heads != 0) {
    config.refuse("the hidden size " + std::to_string(model.hidden) +
                  " is not a multiple of the heads, " + std::to_string(model.heads));
  }
  return model.hidden / model.heads;
}

}  // namespace ferry
