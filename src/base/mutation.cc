#include "base/mutation.h"

#include <array>
#include <cstddef>

namespace ferry {
namespace {

constexpr std::array kPieces = {
    ": ",   "\n",    "  ",     "- ",     "[",        "]",           "{",       "}",    ",",
    "#",    "'",     "\"",     "&a ",    "*a",       "!x",          "|",       "null", "\t",
    "? ",   "---\n", "%YAML",  "\\",     "\\u0000",  "\\ud800",     "{\"a\":", "@",    "=",
    "true", "ns",    " TiB/s", "\"a\":", "\xff\xfe", "\xef\xbb\xbf"};
constexpr std::array kNumbers = {"0",
                                 "-1",
                                 "-0.0",
                                 "1e-300",
                                 "1e300",
                                 "1e999",
                                 "2147483648",
                                 "9007199254740993",
                                 "9223372036854775807",
                                 "18446744073709551615",
                                 "99999999999999999999"};
constexpr std::size_t kMany = 100'000;

}  // namespace

std::string mutated(std::string text, std::mt19937& random) {
  const auto below = [&](std::size_t end) { return std::size_t{random()} % end; };
  for (std::size_t changes = 1 + below(4); changes > 0 && !text.empty(); --changes) {
    const std::size_t at = below(text.size());
    const std::size_t length = 1 + below(20);
    const std::string range = text.substr(at, length);
    switch (below(8)) {
      case 0:
        text[at] = static_cast<char>(below(256));
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, range);
        break;
      case 3:
        text.erase(at, length);
        text.insert(below(text.size() + 1), range);
        break;
      case 4:
        if (below(8) == 0) text.resize(at);
        break;
      case 5: {
        const std::size_t digit = text.find_first_of("0123456789", at);
        if (digit == std::string::npos) break;
        const std::size_t end = text.find_first_not_of("0123456789", digit);
        text.replace(digit, end - digit, kNumbers[below(kNumbers.size())]);
        break;
      }
      default: {
        std::string piece = kPieces[below(kPieces.size())];
        if (below(1000) == 0) {
          std::string many;
          for (std::size_t i = 0; i < kMany; ++i) many += piece;
          piece = many;
        }
        text.insert(at, piece);
      }
    }
  }
  return text;
}

}  // namespace ferry
