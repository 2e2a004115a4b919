#include "data/safetensors_writer.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "data/safetensors_header.h"

namespace ferry {
namespace {

/// Cuts the tensors, in the order given, into shards of at most `shard_size` bytes of data.
std::vector<std::vector<HeaderEntry>> cut_into_shards(const std::vector<TensorDeclaration>& tensors,
                                                      Bytes shard_size) {
  std::vector<std::vector<HeaderEntry>> shards(1);
  Bytes used;
  for (const TensorDeclaration& tensor : tensors) {
    const auto size = tensor_size(tensor.type, tensor.shape);
    FERRY_CHECK(size.has_value(), tensor.name + ": its size overflows");
    if (!shards.back().empty() && used + *size > shard_size) {
      shards.emplace_back();
      used = 0_B;
    }
    shards.back().push_back({tensor.name, tensor.type, tensor.shape, 0_B, *size});
    used += *size;
  }
  return shards;
}

/// Gives each tensor of a shard its offset. Wide element types come first, as the reference
/// implementation does it: then every tensor is aligned to its element size.
void lay_out(std::vector<HeaderEntry>& entries) {
  std::ranges::stable_sort(entries, std::greater<>(),
                           [](const HeaderEntry& entry) { return element_size(entry.type); });
  Bytes end;
  for (HeaderEntry& entry : entries) {
    entry.offset = end;
    end += entry.size;
  }
}

std::string shard_name(const std::string& stem, std::size_t number, std::size_t count) {
  if (count == 1) return stem + ".safetensors";
  char suffix[64];
  std::snprintf(suffix, sizeof suffix, "-%05zu-of-%05zu.safetensors", number + 1, count);
  return stem + suffix;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::filesystem::path folder, std::string stem,
                                     const std::vector<TensorDeclaration>& tensors,
                                     Bytes shard_size)
    : folder_(std::move(folder)), stem_(std::move(stem)) {
  auto shards = cut_into_shards(tensors, shard_size);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    lay_out(shards[i]);
    const std::string header = safetensors_header(shards[i]);
    const Bytes begin = {std::ssize(header)};
    Bytes end = begin;
    for (const HeaderEntry& entry : shards[i]) {
      const bool added =
          slots_.emplace(entry.name, Slot{i, begin + entry.offset, entry.size, 0_B}).second;
      FERRY_CHECK(added && entry.name != "__metadata__", entry.name + ": declared twice");
      end += entry.size;
      total_ += entry.size;
    }
    shards_.emplace_back(folder_ / shard_name(stem_, i, shards.size()), end);
    shards_.back().write(0_B, std::as_bytes(std::span(header)));
  }
}

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> data) {
  const auto slot = slots_.find(name);
  FERRY_CHECK(slot != slots_.end(), std::string(name) + ": not declared");
  FERRY_CHECK(slot->second.size.count == std::ssize(data), slot->first + ": wrong size");
  write_part(name, 0_B, data);
}

void SafetensorsWriter::write_part(std::string_view name, Bytes begin,
                                   std::span<const std::byte> data) {
  const auto found = slots_.find(name);
  FERRY_CHECK(found != slots_.end(), std::string(name) + ": not declared");
  Slot& slot = found->second;
  FERRY_CHECK(begin.count >= 0 && begin.count + std::ssize(data) <= slot.size.count,
              found->first + ": a range outside the tensor");
  FERRY_CHECK(slot.written.count + std::ssize(data) <= slot.size.count,
              found->first + ": written twice");
  shards_[slot.shard].write(slot.offset + begin, data);
  slot.written += Bytes{std::ssize(data)};
}

void SafetensorsWriter::commit() {
  for (const auto& [name, slot] : slots_) {
    FERRY_CHECK(slot.written == slot.size, name + ": not completely written");
  }
  for (OutputFile& shard : shards_) shard.sync();
  for (OutputFile& shard : shards_) shard.commit();
  if (shards_.size() == 1) return;
  nlohmann::json index;
  index["metadata"]["total_size"] = total_.count;
  for (const auto& [name, slot] : slots_) {
    index["weight_map"][name] = shards_[slot.shard].path().filename().string();
  }
  write_file(folder_ / (stem_ + ".safetensors.index.json"), index.dump(1) + "\n");
}

std::vector<std::string> SafetensorsWriter::file_names() const {
  std::vector<std::string> names;
  for (const OutputFile& shard : shards_) names.push_back(shard.path().filename().string());
  if (shards_.size() > 1) names.push_back(stem_ + ".safetensors.index.json");
  return names;
}

}  // namespace ferry
