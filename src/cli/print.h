// How the command line's tables are set.
#pragma once

#include <string>

namespace ferry {

/// printf into a string of at most 511 characters. The format is always a literal.
__attribute__((format(printf, 1, 2))) std::string print(const char* format, ...);

/// For people: "1h02m", "3m05s", "12s".
std::string duration(double seconds);

}  // namespace ferry
