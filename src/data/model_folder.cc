#include "data/model_folder.h"

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "base/check.h"
#include "base/error.h"
#include "base/input_file.h"
#include "base/json.h"
#include "data/files.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

constexpr const char* kChatTemplate = "chat_template.jinja";

/// The files that are copied as they are, where the model has them.
const std::set<std::string, std::less<>> kCompanions = {"added_tokens.json",
                                                        kChatTemplate,
                                                        "chat_template.json",
                                                        "generation_config.json",
                                                        "merges.txt",
                                                        "special_tokens_map.json",
                                                        "tokenizer.json",
                                                        "tokenizer.model",
                                                        "tokenizer_config.json",
                                                        "vocab.json"};

constexpr Bytes kLargest = 1_GiB;  // of them; tokenizers of large vocabularies have some 20 MB

/// An element type in config.json's words.
const char* dtype_name(ElementType type) {
  if (type == ElementType::f32) return "float32";
  if (type == ElementType::bf16) return "bfloat16";
  FERRY_CHECK(type == ElementType::f16, "weights are f32, bf16 or f16");
  return "float16";
}

/// config.json with the dtype of the weights, under the key that the file has: `torch_dtype` is
/// what transformers before version 5 wrote.
std::string with_dtype(const std::string& text, ElementType weights) {
  nlohmann::json config = parse_json(text, "config.json");
  if (config.contains("torch_dtype")) config["torch_dtype"] = dtype_name(weights);
  if (config.contains("dtype") || !config.contains("torch_dtype")) {
    config["dtype"] = dtype_name(weights);
  }
  return config.dump(2) + "\n";
}

}  // namespace

ModelFiles::ModelFiles(const fs::path& folder, const std::optional<fs::path>& chat_template) {
  std::error_code ignored;
  for (const std::string& name : kCompanions) {
    if (fs::exists(folder / name, ignored))
      files_.emplace(name, read_file(folder / name, kLargest));
  }
  if (chat_template) files_.insert_or_assign(kChatTemplate, read_file(*chat_template, kLargest));
  const fs::path config = folder / "config.json";
  config_ = read_file(config, 64_MiB);
  if (!parse_json(config_, config.string()).is_object()) {
    throw UserError(config.string() + ": expected a JSON object");
  }
}

void ModelFiles::write(const fs::path& to, ElementType weights) const {
  for (const auto& [name, text] : files_) write_file(to / name, text);
  write_file(to / "config.json", with_dtype(config_, weights));
}

Bytes model_files_size(const fs::path& folder) {
  Bytes total;
  std::error_code ignored;
  for (const std::string& name : kCompanions) {
    const auto size = fs::file_size(folder / name, ignored);
    if (!ignored) total += Bytes{static_cast<std::int64_t>(size)};
  }
  return total;
}

void require_tokenizer(const fs::path& folder) {
  std::error_code ignored;
  const auto is_there = [&](const char* name) { return fs::exists(folder / name, ignored); };
  if (is_there("tokenizer.json")) return require_content(folder / "tokenizer.json");
  if (is_there("vocab.json") && is_there("merges.txt")) {
    require_content(folder / "vocab.json");
    return require_content(folder / "merges.txt");
  }
  throw UserError(folder.string() +
                  ": no tokenizer; expected tokenizer.json, or vocab.json and merges.txt");
}

}  // namespace ferry
