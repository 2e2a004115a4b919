#include "cli/installation.h"

#include "base/error.h"

namespace ferry {

std::filesystem::path program_folder() {
  std::error_code failed;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed) throw system_error("cannot read /proc/self/exe", failed.value());
  return self.parent_path();
}

std::filesystem::path python_interpreter() {
  return beside_or_built(program_folder(), FERRY_PYTHON_BESIDE, FERRY_PYTHON);
}

std::filesystem::path python_tools_folder() {
  return beside_or_built(program_folder(), FERRY_TOOLS_BESIDE, FERRY_TOOLS);
}

std::filesystem::path machines_folder() {
  return beside_or_built(program_folder(), FERRY_MACHINES_BESIDE, FERRY_MACHINES);
}

std::filesystem::path beside_or_built(const std::filesystem::path& folder,
                                      const std::filesystem::path& beside,
                                      const std::filesystem::path& built) {
  const std::filesystem::path found = (folder / beside).lexically_normal();
  std::error_code unreadable;  // is as good as absent
  return std::filesystem::exists(found, unreadable) ? found : built;
}

}  // namespace ferry
