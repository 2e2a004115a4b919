// Which ferry this is.
#pragma once

#include <string_view>

namespace ferry {

/// "MAJOR.MINOR.PATCH", as the project's CMakeLists.txt says.
std::string_view version();

}  // namespace ferry
