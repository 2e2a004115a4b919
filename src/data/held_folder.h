// A folder as it was when it was opened, whatever has its name later.
#pragma once

#include <filesystem>

namespace ferry {

class HeldFolder {
 public:
  /// Throws ResourceError when it cannot be opened.
  explicit HeldFolder(std::filesystem::path path);
  HeldFolder(const HeldFolder&) = delete;
  HeldFolder& operator=(const HeldFolder&) = delete;
  ~HeldFolder();

  /// False once it was moved or removed, also where another folder has its name now.
  bool is_in_place() const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace ferry
