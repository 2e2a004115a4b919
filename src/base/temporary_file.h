// A file that is written under a name of its own and appears under its final one when it is whole.
#pragma once

#include <filesystem>
#include <string_view>

namespace ferry {

/// A new file beside `path`, open for writing: "PATH.tmp" and eight random digits, which was not
/// there before and no link can stand for. Locked while it is open; what writers that died have
/// left beside `path`, which is locked no longer, is removed first. Destroyed before rename(), it
/// leaves nothing. One thread at a time.
class TemporaryFile {
 public:
  /// Throws ResourceError when no file can be made there.
  explicit TemporaryFile(std::filesystem::path path);
  TemporaryFile(TemporaryFile&& other) noexcept;
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  ~TemporaryFile();

  /// The final name.
  const std::filesystem::path& path() const { return path_; }
  /// Owned by this object.
  int descriptor() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }

  /// Writes all of `text` behind what was written. Throws ResourceError.
  void append(std::string_view text);

  /// Gives the file its final name, in place of any file there, and closes it. Throws
  /// ResourceError.
  void rename();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;  // -1 after rename() or a move
};

}  // namespace ferry
