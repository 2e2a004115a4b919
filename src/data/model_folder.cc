#include "data/model_folder.h"

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "base/check.h"
#include "base/error.h"
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

/// An element type in config.json's words.
const char* dtype_name(ElementType type) {
  if (type == ElementType::f32) return "float32";
  if (type == ElementType::bf16) return "bfloat16";
  FERRY_CHECK(type == ElementType::f16, "weights are f32, bf16 or f16");
  return "float16";
}

/// Writes `from`'s config.json with the dtype of the weights, under the key that the file has:
/// `torch_dtype` is what transformers before version 5 wrote.
void write_config(const fs::path& from, const fs::path& to, ElementType weights) {
  const fs::path file = from / "config.json";
  nlohmann::json config = parse_json(read_file(file, 64_MiB), file.string());
  if (!config.is_object()) throw UserError(file.string() + ": expected a JSON object");
  if (config.contains("torch_dtype")) config["torch_dtype"] = dtype_name(weights);
  if (config.contains("dtype") || !config.contains("torch_dtype")) {
    config["dtype"] = dtype_name(weights);
  }
  write_file(to / "config.json", config.dump(2) + "\n");
}

}  // namespace

void copy_model_files(const fs::path& from, const fs::path& to, ElementType weights,
                      const std::optional<fs::path>& chat_template) {
  const auto copy = [&](const fs::path& file, const std::string& name) {
    fs::copy_file(file, to / name);
    sync_file(to / name);
  };
  try {
    for (const auto& file : fs::directory_iterator(from)) {
      const std::string name = file.path().filename().string();
      const bool is_replaced = chat_template && name == kChatTemplate;
      if (kCompanions.contains(name) && !is_replaced) copy(file.path(), name);
    }
    if (chat_template) copy(*chat_template, kChatTemplate);
  } catch (const fs::filesystem_error& error) {
    throw ResourceError("cannot copy what belongs to the model from " + from.string() + ": " +
                        error.what());
  }
  write_config(from, to, weights);
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
