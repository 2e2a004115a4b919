// The CUDA runtime that torch loaded, without its headers.
#pragma once

#include <dlfcn.h>

namespace ferry {

/// A function of it; null when it has none of that name, or torch loaded none.
template <typename Function>
Function* cuda_function(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace ferry
