// A Hugging Face config.json as the families read it: typed values, transformers' rule that null
// means "not given", and refusals that name file, key, what was expected and what was found.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "spec/model_spec.h"

namespace ferry {

/// One JSON object of the file. `where` starts every message: file, then the path inside it. All
/// reads throw UserError when the value is of another type or out of bounds.
/// Lifetime: not longer than the JSON.
class Config {
 public:
  /// Larger sizes are slips of the pen, and no product of three of them overflows.
  static constexpr std::int64_t kLargestSize = std::int64_t{1} << 20;

  Config(const nlohmann::json& json, std::string where);

  [[noreturn]] void refuse(const std::string& problem) const;
  [[noreturn]] void refuse_value(const std::string& key, const std::string& expected) const;

  /// True when the key is there and not null.
  bool has(const std::string& key) const;
  bool is_null(const std::string& key) const;

  /// A whole number of at least 1. The bound for sizes of the model is checked when all are read.
  std::int64_t size(const std::string& key, std::int64_t fallback) const;
  /// A whole number of at least 0.
  std::int64_t count(const std::string& key, std::int64_t fallback) const;
  /// A token of a vocabulary of `vocab`, or nothing; below 0 it counts from the end, as torch has
  /// it.
  std::optional<std::int64_t> token(const std::string& key, std::int64_t vocab) const;
  /// Without a fallback the key must be there.
  double positive(const std::string& key, std::optional<double> fallback) const;
  double not_negative(const std::string& key, double fallback) const;
  bool flag(const std::string& key, bool fallback) const;
  std::string text(const std::string& key, const std::string& fallback) const;
  /// The list of strings under `key`; empty when there is none.
  std::vector<std::string> texts(const std::string& key) const;
  /// The object under `key`, or nothing.
  std::optional<Config> section(const std::string& key) const;
  bool empty() const;
  /// The first key that has an object, or nothing.
  std::optional<std::string> first_section() const;

  /// One of the activations that ferry has, by transformers' names.
  Activation activation(const std::string& key, const std::string& fallback) const;

 private:
  std::int64_t whole(const std::string& key, std::int64_t fallback, std::int64_t least,
                     const std::string& expected) const;
  const nlohmann::json& value(const std::string& key) const;

  const nlohmann::json* json_;  // never null
  std::string where_;
};

/// hidden / heads. Throws UserError when that leaves a remainder.
std::int64_t even_head_dim(const Config& config, const ModelSpec& model);

}  // namespace ferry
