#include "cli/cache_folder.h"

#include <unistd.h>

#include <cstdlib>
#include <span>

#include "cli/print.h"
#include "data/checksum.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

/// The value of a variable of the environment; empty when it is not set.
fs::path named_by(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

/// Whether `folder` can be written, or made where it is not there.
bool is_writable(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) return access(".", W_OK) == 0;
  return fs::is_directory(folder, error) && access(folder.c_str(), W_OK) == 0;
}

}  // namespace

fs::path cache_folder() {
  if (const fs::path given = named_by("FERRY_CACHE"); !given.empty()) return given;
  const fs::path here = ".cache";
  if (is_writable(here)) return here;
  if (const fs::path users = named_by("XDG_CACHE_HOME"); !users.empty()) return users / "ferry";
  const fs::path home = named_by("HOME");
  return home.empty() ? here : home / ".cache" / "ferry";
}

fs::path cache_file(const std::string& room, const std::string& key) {
  Xxh64 hash;
  hash.update(std::as_bytes(std::span(key)));
  return cache_folder() / room /
         print("%016llx.json", static_cast<unsigned long long>(hash.value()));
}

fs::path kernel_file(const std::string& key) {
  return cache_file("kernels", key).replace_extension(".cubin");
}

}  // namespace ferry
