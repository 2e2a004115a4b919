// The door through which everything leaves (what enters: base/input_file.h): every call is checked,
// short transfers are continued, and a file appears under its final name only when it is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/input_file.h"
#include "base/temporary_file.h"
#include "base/units.h"

namespace ferry {

/// A file being written under a temporary name beside its final one. Destroyed without commit(),
/// it leaves nothing behind. One thread at a time.
class OutputFile {
 public:
  /// Creates it and reserves `size` bytes on the drive, so that a full drive is found now.
  /// Throws ResourceError naming file, need and have.
  OutputFile(std::filesystem::path path, Bytes size);

  const std::filesystem::path& path() const { return file_.path(); }

  /// Writes all of `source` at `offset`. Requires: it lies within the size reserved.
  /// Throws ResourceError naming file, offset, bytes written and asked for.
  void write(Bytes offset, std::span<const std::byte> source);

  /// Makes the contents durable; must be followed by commit() to be seen.
  void sync();

  /// Syncs, renames to the final name and syncs the folder. At most once.
  void commit();

 private:
  TemporaryFile file_;
  Bytes size_;
};

/// Writes a whole small file through OutputFile.
void write_file(const std::filesystem::path& path, const std::string& text);

/// Makes what a folder lists (its files' names) durable.
void sync_folder(const std::filesystem::path& folder);

/// Makes a file's contents durable, whoever wrote it.
void sync_file(const std::filesystem::path& file);

}  // namespace ferry
