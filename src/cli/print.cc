#include "cli/print.h"

#include <array>
#include <cstdarg>
#include <cstdio>

namespace ferry {

std::string print(const char* format, ...) {
  std::array<char, 512> text{};
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  return text.data();
}

std::string duration(double seconds) {
  const auto whole = static_cast<long>(seconds);
  if (whole >= 3600) return print("%ldh%02ldm", whole / 3600, whole / 60 % 60);
  if (whole >= 60) return print("%ldm%02lds", whole / 60, whole % 60);
  return print("%lds", whole);
}

}  // namespace ferry
