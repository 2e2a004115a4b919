#include "report/json_text.h"

#include <array>
#include <charconv>
#include <cmath>

#include "base/check.h"

namespace ferry {

void JsonText::open(char opener, char closer) {
  separate();
  text_ += opener;
  closers_ += closer;
  first_ = true;
}

void JsonText::end() {
  FERRY_CHECK(!closers_.empty(), "nothing is open");
  text_ += closers_.back();
  closers_.pop_back();
  first_ = false;
}

void JsonText::name(std::string_view key) {
  separate();
  quote(key);
  text_ += ':';
  first_ = true;
}

void JsonText::separate() {
  if (!first_) text_ += ',';
  first_ = false;
}

void JsonText::string(std::string_view value) {
  separate();
  quote(value);
}

void JsonText::number(double value) {
  FERRY_CHECK(std::isfinite(value), "JSON holds finite numbers");
  std::array<char, 32> digits{};
  const auto [stop, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  separate();
  text_.append(digits.data(), stop);
}

void JsonText::integer(std::int64_t value) {
  separate();
  text_ += std::to_string(value);
}

void JsonText::line() {
  separate();
  text_ += '\n';
  first_ = true;
}

std::string JsonText::take() {
  FERRY_CHECK(closers_.empty(), "JSON text ends inside a bracket");
  return std::move(text_);
}

// '<' is escaped too, so that no name can end the <script> in which a page carries its data.
void JsonText::quote(std::string_view value) {
  constexpr std::string_view kHex = "0123456789abcdef";
  text_ += '"';
  for (const char c : value) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      (text_ += '\\') += c;
    } else if (code < 0x20 || code >= 0x7f || c == '<') {
      text_ += "\\u00";
      (text_ += kHex[code >> 4]) += kHex[code & 15];
    } else {
      text_ += c;
    }
  }
  text_ += '"';
}

}  // namespace ferry
