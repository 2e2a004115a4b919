// For tests: a new folder that is removed with everything in it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "base/error.h"

namespace ferry {

class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

  /// Puts a file there and returns its path.
  std::filesystem::path put(const std::string& name, const std::string& bytes) const;

  /// How many files and folders it holds directly.
  std::size_t count() const;

 private:
  std::filesystem::path path_;
};

/// While it lives, this process cannot write files beyond `bytes`: the write that reaches it is
/// cut short and the next fails with EFBIG, as on a full drive.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::size_t bytes);
  ~FileSizeLimit();
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  std::size_t before_;
  void (*handler_before_)(int);
};

/// What `act` threw as a UserError, or "" when it threw none.
template <typename Act>
std::string user_error(Act act) {
  try {
    act();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace ferry
