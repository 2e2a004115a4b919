#include "device/shared_library.h"

#include <dlfcn.h>

#include "base/error.h"

namespace ferry {

SharedLibrary SharedLibrary::load(std::span<const std::string> names) {
  std::string errors;
  for (const std::string& name : names) {
    if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return {name, handle};
    errors += (errors.empty() ? "" : "; ") + std::string(dlerror());
  }
  throw ResourceError(errors);
}

void* SharedLibrary::address(const char* name) const {
  void* const found = dlsym(handle_, name);
  if (found == nullptr) throw ResourceError(name_ + " has no " + name);
  return found;
}

}  // namespace ferry
