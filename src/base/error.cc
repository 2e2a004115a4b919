#include "base/error.h"

#include <system_error>

namespace ferry {

ResourceError system_error(const std::string& what, int errno_value) {
  return ResourceError(what + ": " + std::generic_category().message(errno_value));
}

}  // namespace ferry
