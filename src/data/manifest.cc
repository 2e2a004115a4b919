#include "data/manifest.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/input_file.h"
#include "base/json.h"
#include "data/checksum.h"
#include "data/files.h"
#include "data/model_folder.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kFormat = "ferry-checkpoint";
constexpr int kVersion = 2;
constexpr std::int64_t kMostSteps = 1'000'000'000;     // as train.steps
constexpr std::int64_t kMost = std::int64_t{1} << 62;  // of other counts

std::optional<std::uint64_t> read_hexadecimal(const std::string& text) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value, 16);
  if (text.size() != 16 || result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

/// A field of the manifest, of a given JSON kind. Throws UserError when it is not there.
const json& field(const json& object, const char* key, bool (json::*is_kind)() const noexcept,
                  const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end()) throw UserError(where + ": '" + key + "' is missing");
  if (!(*found.*is_kind)()) {
    throw UserError(where + ": '" + key + "' has the wrong type: " + shown(*found));
  }
  return *found;
}

std::int64_t count_field(const json& object, const char* key, std::int64_t most,
                         const std::string& where) {
  const auto value = field(object, key, &json::is_number_unsigned, where).get<std::uint64_t>();
  if (value <= static_cast<std::uint64_t>(most)) return static_cast<std::int64_t>(value);
  throw UserError(where + ": '" + key + "' is too large: " + std::to_string(value) +
                  ", expected at most " + std::to_string(most));
}

std::string text_field(const json& object, const char* key, const std::string& where) {
  return field(object, key, &json::is_string, where).get<std::string>();
}

ManifestFile read_file_entry(const json& value, const std::string& where) {
  if (!value.is_object()) throw UserError(where + ": a file entry is not an object");
  ManifestFile file{
      text_field(value, "name", where), {count_field(value, "bytes", kMost, where)}, 0};
  const fs::path name = file.name;
  if (name.empty() || name.is_absolute() || *name.lexically_normal().begin() == "..") {
    throw UserError(where + ": file " + in_quotes(file.name) + " is not inside the checkpoint");
  }
  const auto checksum = read_hexadecimal(text_field(value, "xxh64", where));
  if (!checksum) {
    throw UserError(where + ": xxh64 of " + in_quotes(file.name) + ": expected 16 hex digits");
  }
  file.xxh64 = *checksum;
  return file;
}

/// An object whose values are texts.
std::map<std::string, std::string> texts_field(const json& object, const char* key,
                                               const std::string& where) {
  const json& texts = field(object, key, &json::is_object, where);
  std::map<std::string, std::string> found;
  for (const auto& [name, unused] : texts.items()) {
    found[name] = text_field(texts, name.c_str(), where);
  }
  return found;
}

Manifest parse_manifest(const json& value, const std::string& where) {
  if (!value.is_object() || value.value("format", json()) != kFormat) {
    throw UserError(where + ": not a ferry checkpoint's manifest");
  }
  if (const auto version = count_field(value, "version", kMost, where); version != kVersion) {
    throw UserError(where + ": version " + std::to_string(version) + ", expected " +
                    std::to_string(kVersion) +
                    ": another release of ferry wrote it\n  try: a new run with this checkpoint as "
                    "its model");
  }
  Manifest manifest;
  manifest.step = count_field(value, "step", kMostSteps, where);
  manifest.sequences = count_field(value, "sequences", kMost, where);
  manifest.question = texts_field(value, "question", where);
  manifest.versions = texts_field(value, "versions", where);
  for (const json& file : field(value, "files", &json::is_array, where)) {
    manifest.files.push_back(read_file_entry(file, where));
  }
  return manifest;
}

/// The hash of a manifest's text with zeros for the digits that end it: what these are.
std::string seal_of(std::string text, const std::string& digits) {
  if (const std::size_t at = text.rfind(digits); at != std::string::npos) {
    text.replace(at, digits.size(), digits.size(), '0');
  }
  Xxh64 hash;
  hash.update(std::as_bytes(std::span(text)));
  return to_hexadecimal(hash.value());
}

/// Any other byte in it would be another run's position, settings or checksums.
void require_sealed(const json& value, const std::string& text, const std::string& where) {
  const std::string digits = text_field(value, "xxh64", where);
  if (const std::string found = seal_of(text, digits); found != digits) {
    throw UserError(where + ": damaged: xxh64 " + found + ", its last line says " +
                    in_quotes(digits));
  }
}

/// True when the manifest names the safetensors file STEM.safetensors, or shards of it.
bool has_tensors(const Manifest& manifest, const std::string& stem) {
  return std::ranges::any_of(manifest.files, [&](const ManifestFile& file) {
    return file.name == stem + ".safetensors" ||
           (file.name.starts_with(stem + "-") && file.name.ends_with(".safetensors"));
  });
}

/// What a manifest does not name was not checked, so a checkpoint has nothing of the kind.
void require_parts(const fs::path& folder, const Manifest& manifest, const std::string& where) {
  const auto missing = [&](const std::string& what) {
    throw UserError(where + ": it names no " + what);
  };
  const std::string optimizer = std::string(kStateFolder) + "/" + kOptimizerStem;
  if (!has_tensors(manifest, kWeightsStem)) missing("weights (model.safetensors)");
  if (!has_tensors(manifest, optimizer)) missing("optimizer state (" + optimizer + ".safetensors)");
  const auto named = [&](const std::string& name) {
    return std::ranges::find(manifest.files, name, &ManifestFile::name) != manifest.files.end();
  };
  if (!named("config.json")) missing("config.json");
  for (const auto& item : fs::recursive_directory_iterator(folder)) {
    const std::string name = item.path().lexically_relative(folder).generic_string();
    const bool tensors =
        name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json");
    if (tensors && !named(name)) throw UserError(where + ": " + in_quotes(name) + " is not in it");
  }
}

void check_sizes(const fs::path& folder, const Manifest& manifest) {
  for (const ManifestFile& file : manifest.files) {
    const fs::path path = folder / file.name;
    std::error_code error;
    const auto size = fs::file_size(path, error);
    if (error) {
      throw UserError(path.string() +
                      ": the manifest names it, but it cannot be read: " + error.message());
    }
    if (size != static_cast<std::uintmax_t>(file.size.count)) {
      throw UserError(path.string() + ": damaged: " + std::to_string(size) +
                      " bytes, the manifest says " + std::to_string(file.size.count));
    }
  }
}

std::int64_t total_bytes(const Manifest& manifest) {
  std::int64_t total = 0;
  for (const ManifestFile& file : manifest.files) total += file.size.count;
  return total;
}

}  // namespace

void write_manifest(const fs::path& folder, Manifest manifest, PhaseListener& listener) {
  fs::create_directories(folder / kStateFolder);
  manifest.files.clear();
  for (const auto& item : fs::recursive_directory_iterator(folder)) {
    const std::string name = item.path().lexically_relative(folder).generic_string();
    if (!item.is_regular_file() || name == kManifestName) continue;
    manifest.files.push_back({name, {static_cast<std::int64_t>(item.file_size())}, 0});
  }
  std::ranges::sort(manifest.files, {}, &ManifestFile::name);
  ProgressCount count(listener, "checksums of " + folder.string(), total_bytes(manifest));
  for (ManifestFile& file : manifest.files) {
    sync_file(folder / file.name);
    file.xxh64 = checksum_file(folder / file.name, &count);
  }

  nlohmann::ordered_json value;
  value["format"] = kFormat;
  value["version"] = kVersion;
  value["step"] = manifest.step;
  value["sequences"] = manifest.sequences;
  value["question"] = manifest.question;
  value["versions"] = manifest.versions;
  value["files"] = json::array();
  for (const ManifestFile& file : manifest.files) {
    value["files"].push_back(
        {{"name", file.name}, {"bytes", file.size.count}, {"xxh64", to_hexadecimal(file.xxh64)}});
  }
  const std::string zeros(16, '0');
  value["xxh64"] = zeros;
  std::string text = value.dump(1) + "\n";
  text.replace(text.rfind(zeros), zeros.size(), seal_of(text, zeros));
  write_file(folder / kManifestName, text);
  sync_folder(folder);
}

Manifest read_manifest(const fs::path& folder) {
  const fs::path path = folder / kManifestName;
  const std::string where = path.string();
  const std::string text = read_file(path, 64_MiB);
  const json value = parse_json(text, where);
  Manifest manifest = parse_manifest(value, where);
  require_sealed(value, text, where);
  require_parts(folder, manifest, where);
  check_sizes(folder, manifest);
  return manifest;
}

void verify_checksums(const fs::path& folder, const Manifest& manifest, PhaseListener& listener) {
  ProgressCount count(listener, "checking " + folder.string(), total_bytes(manifest));
  for (const ManifestFile& file : manifest.files) {
    const std::uint64_t found = checksum_file(folder / file.name, &count);
    if (found != file.xxh64) {
      throw UserError((folder / file.name).string() + ": damaged: xxh64 " + to_hexadecimal(found) +
                      ", the manifest says " + to_hexadecimal(file.xxh64));
    }
  }
}

}  // namespace ferry
