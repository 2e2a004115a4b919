// Whole numbers as text: base 64 digits of five bits and one that says whether more follow, the
// lowest first, the sign in the lowest bit (the coding of JavaScript's source maps). Small numbers
// take one character, and none needs an escape.
#pragma once

#include <cstdint>
#include <string>

namespace ferry {

class PackedNumbers {
 public:
  /// Appends a number. Requires: |number| < 2^62.
  void add(std::int64_t number) {
    constexpr const char* kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    auto rest = number < 0 ? static_cast<std::uint64_t>(-number) << 1 | 1
                           : static_cast<std::uint64_t>(number) << 1;
    for (; rest >= 32; rest >>= 5) text_ += kDigits[(rest & 31) | 32];
    text_ += kDigits[rest];
  }

  /// The text of all numbers added.
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace ferry
