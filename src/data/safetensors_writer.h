// Writes safetensors files, one or sharded, tensor by tensor. Nothing appears under a final name
// before commit(); a writer that is destroyed earlier leaves nothing behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "data/element_type.h"
#include "data/files.h"

namespace ferry {

/// The size of a shard, as transformers' save_pretrained() has it.
inline constexpr Bytes kShardSize = {5'000'000'000};

/// A tensor that is going to be written.
struct TensorDeclaration {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<std::int64_t> shape;
};

/// One thread at a time.
class SafetensorsWriter {
 public:
  static constexpr Bytes kNoSharding = {std::numeric_limits<std::int64_t>::max()};

  /// Prepares STEM.safetensors in `folder`, or, when the data exceeds `shard_size`, the shards
  /// STEM-00001-of-0000N.safetensors and STEM.safetensors.index.json, and reserves their bytes.
  /// A tensor larger than `shard_size` gets a shard of its own.
  /// Requires: names differ, shapes are not negative, `folder` exists.
  /// Throws ResourceError when the drive lacks room (need and have are named).
  SafetensorsWriter(std::filesystem::path folder, std::string stem,
                    const std::vector<TensorDeclaration>& tensors, Bytes shard_size = kNoSharding);

  /// Writes a whole tensor; tensors may come in any order.
  /// Requires: `name` is declared, the size is right, and it has not been written.
  void write(std::string_view name, std::span<const std::byte> data);

  /// Writes part of a tensor from byte `begin` of it on.
  /// Requires: it lies within the tensor; parts do not overlap.
  void write_part(std::string_view name, Bytes begin, std::span<const std::byte> data);

  /// Makes all files durable under their final names; the index is last.
  /// Requires: every tensor is complete.
  void commit();

  /// The names of the files that commit() makes, the index included.
  std::vector<std::string> file_names() const;

 private:
  struct Slot {
    std::size_t shard = 0;
    Bytes offset;  // from the start of the file
    Bytes size;
    Bytes written;
  };

  std::filesystem::path folder_;
  std::string stem_;
  std::vector<OutputFile> shards_;
  std::map<std::string, Slot, std::less<>> slots_;
  Bytes total_;
};

}  // namespace ferry
