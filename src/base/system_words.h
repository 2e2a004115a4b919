// What is said of an error of the standard library's.
#pragma once

#include <string>
#include <system_error>

namespace ferry {

/// Its text; of a thread that the machine did not start also that, and where to look.
std::string words_of_system(const std::system_error& error);

}  // namespace ferry
