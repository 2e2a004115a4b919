// A file open for reading: the door through which everything from outside is read.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "base/units.h"

namespace ferry {

/// A regular file open for reading at any offset. Safe to read from any thread.
class InputFile {
 public:
  /// Throws UserError when there is no such file or it is something else, a FIFO or a device, which
  /// might never end or be long in coming; ResourceError when it cannot be opened. Never waits.
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

  /// Fills `destination` from `offset` on as far as the file goes; returns how many bytes that is.
  /// Throws ResourceError naming file and offset when the drive fails.
  std::size_t read_up_to(Bytes offset, std::span<std::byte> destination) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;  // -1 after a move
  Bytes size_;
};

/// True when `file` is what Git leaves in place of a large file that was not fetched.
bool is_git_lfs_pointer(const InputFile& file);

/// The way out of a Git LFS pointer, for messages.
inline constexpr const char* kGitLfsPointer =
    "a Git LFS pointer, not the file that it stands for\n  try: git lfs pull, in its folder";

/// Throws UserError when there is no such file or it is something else, as InputFile does.
void require_regular(const std::filesystem::path& path);

/// Throws UserError when there is no such file, it is empty, or a Git LFS pointer; ResourceError
/// when it cannot be read.
void require_content(const std::filesystem::path& path);

/// Reads a whole small file. Throws UserError when it is larger than `limit`.
std::string read_file(const std::filesystem::path& path, Bytes limit);

}  // namespace ferry
