#include "data/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"
#include "data/float_formats.h"
#include "data/safetensors_header.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Reads the header of `file`, the file number `number` of its checkpoint.
std::vector<TensorEntry> read_header(const InputFile& file, std::size_t number) {
  const std::string name = file.path().string();
  if (is_git_lfs_pointer(file)) throw UserError(name + ": " + kGitLfsPointer);
  if (file.size() < kHeaderLengthSize) {
    throw UserError(name + ": not a safetensors file: " + std::to_string(file.size().count) +
                    " bytes, expected at least 8");
  }
  std::uint64_t length = 0;
  file.read({0}, std::as_writable_bytes(std::span(&length, 1)));
  if (length > static_cast<std::uint64_t>(kMaxHeader.count)) {
    throw UserError(name + ": its header would have " + std::to_string(length) +
                    " bytes; the format allows at most 100000000");
  }
  const Bytes begin = kHeaderLengthSize + Bytes{static_cast<std::int64_t>(length)};
  if (begin > file.size()) {
    throw UserError(name + ": its header ends " + std::to_string((begin - file.size()).count) +
                    " bytes beyond the end of the file: it is truncated");
  }
  std::string text(length, '\0');
  file.read(kHeaderLengthSize, std::as_writable_bytes(std::span(text)));
  std::vector<TensorEntry> tensors;
  for (HeaderEntry& entry : parse_safetensors_header(text, name, file.size() - begin)) {
    tensors.push_back({std::move(entry.name), entry.type, std::move(entry.shape), number,
                       begin + entry.offset, entry.size});
  }
  return tensors;
}

/// True when the path can be seen; what is wrong with one that cannot is found by opening it.
bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool leaves_folder(const fs::path& name) {
  const fs::path normal = name.lexically_normal();
  return name.empty() || name.is_absolute() || *normal.begin() == ".." || normal == "." ||
         !normal.has_filename();
}

/// Reads an index: file name -> the tensors it must hold.
std::map<std::string, std::vector<std::string>> read_index(const fs::path& path) {
  const std::string name = path.string();
  const json index = parse_json(read_file(path, kMaxHeader), name);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    throw UserError(name + ": expected an object with a 'weight_map' object");
  }
  std::map<std::string, std::vector<std::string>> shards;
  for (const auto& [tensor, shard] : index["weight_map"].items()) {
    if (!shard.is_string()) {
      throw UserError(name + ": tensor " + in_quotes(tensor) + ": expected a file name");
    }
    const auto& file = shard.get_ref<const std::string&>();
    if (leaves_folder(file) || file.find('\0') != std::string::npos) {
      throw UserError(name + ": tensor " + in_quotes(tensor) + ": file " + in_quotes(file) +
                      " is not inside the checkpoint's folder");
    }
    shards[file].push_back(tensor);
  }
  return shards;
}

/// Names every shard that is missing, so that one more download is enough.
void require_shards(const fs::path& folder, const fs::path& index,
                    const std::map<std::string, std::vector<std::string>>& shards) {
  std::string missing;
  int count = 0;
  for (const auto& [shard, tensors] : shards) {
    if (is_there(folder / shard)) continue;
    missing += (count++ > 0 ? ", " : "") + in_quotes(shard);
  }
  if (count == 0) return;
  throw UserError(index.string() + (count > 1 ? ": shards " : ": shard ") + missing +
                  (count > 1 ? " are missing" : " is missing"));
}

}  // namespace

const TensorEntry* Checkpoint::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

const TensorEntry& Checkpoint::at(std::string_view name) const {
  const TensorEntry* const entry = find(name);
  if (entry != nullptr) return *entry;
  const std::string where = files_.empty() ? "the checkpoint" : files_.front().path().string();
  throw UserError(where + ": tensor " + in_quotes(name) + " is missing among " +
                  std::to_string(tensors_.size()));
}

void Checkpoint::read(const TensorEntry& entry, std::span<std::byte> destination) const {
  FERRY_CHECK(std::ssize(destination) == entry.size.count, entry.name + ": wrong buffer size");
  read_part(entry, 0_B, destination);
}

void Checkpoint::read_part(const TensorEntry& entry, Bytes begin,
                           std::span<std::byte> destination) const {
  FERRY_CHECK(begin.count >= 0 && begin.count + std::ssize(destination) <= entry.size.count,
              entry.name + ": a range outside the tensor");
  files_.at(entry.file).read(entry.offset + begin, destination);
}

void Checkpoint::read_as_f32(const TensorEntry& entry, std::int64_t first,
                             std::span<float> destination) const {
  if (entry.type == ElementType::f32) {
    return read_part(entry, {4 * first}, std::as_writable_bytes(destination));
  }
  require_floats(entry);
  const auto widen = entry.type == ElementType::bf16 ? widen_bf16 : widen_f16;
  std::vector<std::uint16_t> piece(std::min(destination.size(), std::size_t{1} << 15));
  for (std::size_t at = 0; at < destination.size();) {
    const auto part = std::span(piece).first(std::min(piece.size(), destination.size() - at));
    read_part(entry, {2 * (first + static_cast<std::int64_t>(at))}, std::as_writable_bytes(part));
    widen(part, destination.subspan(at, part.size()));
    at += part.size();
  }
}

void Checkpoint::require_floats(const TensorEntry& entry) const {
  constexpr std::array kRead = {ElementType::f32, ElementType::bf16, ElementType::f16};
  if (std::ranges::find(kRead, entry.type) != kRead.end()) return;
  throw UserError(path_of(entry).string() + ": tensor " + in_quotes(entry.name) + " has dtype " +
                  std::string(name_of(entry.type)) + "; expected F32, BF16 or F16");
}

const fs::path& Checkpoint::path_of(const TensorEntry& entry) const {
  return files_.at(entry.file).path();
}

void Checkpoint::add_file(const fs::path& path, std::vector<TensorEntry>& found) {
  files_.emplace_back(path);
  found = read_header(files_.back(), files_.size() - 1);
}

void Checkpoint::keep(std::vector<TensorEntry> tensors) {
  std::ranges::sort(tensors, {}, &TensorEntry::name);
  tensors_ = std::move(tensors);
  for (std::size_t i = 0; i < tensors_.size(); ++i) index_.emplace(tensors_[i].name, i);
}

Checkpoint open_safetensors(const fs::path& path) {
  Checkpoint checkpoint;
  std::vector<TensorEntry> tensors;
  checkpoint.add_file(path, tensors);
  checkpoint.keep(std::move(tensors));
  return checkpoint;
}

Checkpoint open_checkpoint(const fs::path& folder, const std::string& stem) {
  const fs::path single = folder / (stem + ".safetensors");
  const fs::path index = folder / (stem + ".safetensors.index.json");
  if (is_there(single)) return open_safetensors(single);
  if (!is_there(index)) {
    throw UserError(folder.string() + ": expected " + single.filename().string() + " or " +
                    index.filename().string() + "; found neither (pickled weights are not read)");
  }
  Checkpoint checkpoint;
  std::vector<TensorEntry> tensors;
  const auto shards = read_index(index);
  require_shards(folder, index, shards);
  for (const auto& [shard, names] : shards) {
    std::vector<TensorEntry> held;
    checkpoint.add_file(folder / shard, held);
    std::map<std::string_view, const TensorEntry*> by_name;
    for (const TensorEntry& entry : held) by_name.emplace(entry.name, &entry);
    for (const std::string& name : names) {
      const auto found = by_name.find(name);
      if (found == by_name.end()) {
        throw UserError(index.string() + ": tensor " + in_quotes(name) + " is not in its shard " +
                        in_quotes(shard));
      }
      tensors.push_back(*found->second);
    }
  }
  checkpoint.keep(std::move(tensors));
  return checkpoint;
}

}  // namespace ferry
