// Reads tensors from safetensors files: one file, or the shards that an index names. Opening reads
// headers only; data is read tensor by tensor or in parts, so a checkpoint never has to fit memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/input_file.h"
#include "base/units.h"
#include "data/element_type.h"

namespace ferry {

/// A tensor in a checkpoint, row-major.
struct TensorEntry {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<std::int64_t> shape;
  std::size_t file = 0;  // which of the checkpoint's files
  Bytes offset;          // from the start of that file
  Bytes size;
  std::int64_t numel() const { return size.count / element_size(type).count; }
};

/// The tensors of a checkpoint and the files that hold them. Safe to read from any thread.
class Checkpoint {
 public:
  /// The tensors, by name.
  const std::vector<TensorEntry>& tensors() const { return tensors_; }

  /// The tensor of that name, or null. Lifetime: that of the checkpoint.
  const TensorEntry* find(std::string_view name) const;

  /// The tensor of that name. Throws UserError when there is none.
  const TensorEntry& at(std::string_view name) const;

  /// Reads a whole tensor as it is stored. Requires: destination.size() == entry.size.
  void read(const TensorEntry& entry, std::span<std::byte> destination) const;

  /// Reads `destination.size()` bytes of a tensor from byte `begin` of it on.
  /// Requires: the range lies within the tensor.
  void read_part(const TensorEntry& entry, Bytes begin, std::span<std::byte> destination) const;

  /// Reads elements of an F32, BF16 or F16 tensor from element `first` on as floats; exact. Needs
  /// 64 KiB of memory besides. Requires: the tensor has so many. Throws UserError for another type.
  void read_as_f32(const TensorEntry& entry, std::int64_t first,
                   std::span<float> destination) const;

  /// Throws UserError unless read_as_f32() reads tensors of this type.
  void require_floats(const TensorEntry& entry) const;

  /// The path of the file that holds a tensor.
  const std::filesystem::path& path_of(const TensorEntry& entry) const;

 private:
  friend Checkpoint open_safetensors(const std::filesystem::path& path);
  friend Checkpoint open_checkpoint(const std::filesystem::path& folder, const std::string& stem);

  void add_file(const std::filesystem::path& path, std::vector<TensorEntry>& found);
  void keep(std::vector<TensorEntry> tensors);

  std::vector<InputFile> files_;
  std::vector<TensorEntry> tensors_;                       // sorted by name
  std::map<std::string, std::size_t, std::less<>> index_;  // name -> place in tensors_
};

/// Opens one safetensors file. Throws UserError naming file, tensor and the broken rule.
Checkpoint open_safetensors(const std::filesystem::path& path);

/// Opens STEM.safetensors in `folder`, or else the shards named by STEM.safetensors.index.json.
/// Of a shard only the tensors that the index names are kept.
Checkpoint open_checkpoint(const std::filesystem::path& folder, const std::string& stem = "model");

}  // namespace ferry
