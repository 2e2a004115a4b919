#include "base/version.h"

namespace ferry {

std::string_view version() { return FERRY_VERSION; }

}  // namespace ferry
