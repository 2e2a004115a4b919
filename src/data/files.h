// The door to the file system for everything that enters and leaves: every call is checked, short
// transfers are continued, and a file appears under its final name only when it is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/units.h"

namespace ferry {

/// A file open for reading at any offset. Safe to read from any thread.
class InputFile {
 public:
  /// Throws UserError when there is no such file, ResourceError when it cannot be opened.
  explicit InputFile(std::filesystem::path path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  const std::filesystem::path& path() const { return path_; }
  /// The size when the file was opened.
  Bytes size() const { return size_; }
  /// The descriptor, for mmap. Owned by this object.
  int descriptor() const { return descriptor_; }

  /// Fills `destination` from `offset` on. Throws ResourceError naming file and offset when the
  /// drive fails or the file has become shorter.
  void read(Bytes offset, std::span<std::byte> destination) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;  // -1 after a move
  Bytes size_;
};

/// True when `file` is what Git leaves in place of a large file that was not fetched.
bool is_git_lfs_pointer(const InputFile& file);

/// Throws UserError when there is no such file, it is empty, or a Git LFS pointer; ResourceError
/// when it cannot be read.
void require_content(const std::filesystem::path& path);

/// The way out of a Git LFS pointer, for messages.
inline constexpr const char* kGitLfsPointer =
    "a Git LFS pointer, not the file that it stands for\n  try: git lfs pull, in its folder";

/// A file being written under a temporary name beside its final one. Destroyed without commit(),
/// it leaves nothing behind. One thread at a time.
class OutputFile {
 public:
  /// Creates "PATH.tmp" and reserves `size` bytes on the drive, so that a full drive is found
  /// now. Throws ResourceError naming file, need and have.
  OutputFile(std::filesystem::path path, Bytes size);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  const std::filesystem::path& path() const { return path_; }

  /// Writes all of `source` at `offset`. Requires: it lies within the size reserved.
  /// Throws ResourceError naming file, offset, bytes written and asked for.
  void write(Bytes offset, std::span<const std::byte> source);

  /// Makes the contents durable; must be followed by commit() to be seen.
  void sync();

  /// Syncs, renames to the final name and syncs the folder. At most once.
  void commit();

 private:
  std::filesystem::path temporary() const;

  std::filesystem::path path_;
  int descriptor_ = -1;  // -1 after commit() or a move
  Bytes size_;
};

/// Writes a whole small file through OutputFile.
void write_file(const std::filesystem::path& path, const std::string& text);

/// Reads a whole small file. Throws UserError when it is larger than `limit`.
std::string read_file(const std::filesystem::path& path, Bytes limit);

/// Makes what a folder lists (its files' names) durable.
void sync_folder(const std::filesystem::path& folder);

/// Makes a file's contents durable, whoever wrote it.
void sync_file(const std::filesystem::path& file);

}  // namespace ferry
