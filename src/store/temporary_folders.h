// For tests: empty folders that are gone at the end.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"

namespace ferry {

class TemporaryFolders {
 public:
  explicit TemporaryFolders(int count) {
    for (int i = 0; i < count; ++i) {
      std::string name = (std::filesystem::temp_directory_path() / "ferry_store_XXXXXX").string();
      if (mkdtemp(name.data()) == nullptr) throw system_error("cannot make " + name, errno);
      paths_.emplace_back(name);
    }
  }
  ~TemporaryFolders() {
    std::error_code ignored;
    for (const auto& path : paths_) std::filesystem::remove_all(path, ignored);
  }
  TemporaryFolders(const TemporaryFolders&) = delete;
  TemporaryFolders& operator=(const TemporaryFolders&) = delete;

  const std::filesystem::path& operator[](std::size_t i) const { return paths_[i]; }

 private:
  std::vector<std::filesystem::path> paths_;
};

}  // namespace ferry
