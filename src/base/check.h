// Checks of our own invariants. Always compiled in; a failure prints where and why, and aborts.
#pragma once

#include <string>

namespace ferry {

/// Prints "FILE:LINE: check failed: CONDITION: MESSAGE" to standard error and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message);

}  // namespace ferry

#define FERRY_CHECK(condition, message) \
  ((condition) ? void() : ::ferry::check_failed(__FILE__, __LINE__, #condition, message))

#define FERRY_UNREACHABLE(message) ::ferry::check_failed(__FILE__, __LINE__, "unreachable", message)
