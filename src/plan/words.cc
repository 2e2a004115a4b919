#include "plan/words.h"

#include <algorithm>
#include <charconv>

namespace ferry {
namespace {

// Reads a decimal index without sign or leading zero, so that every value has one name.
std::optional<int> index_from(std::string_view digits) {
  if (digits.empty() || (digits.size() > 1 && digits.front() == '0')) return {};
  int index = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, index);
  if (error != std::errc() || stop != end || index < 0) return {};
  return index;
}

// Takes the text up to the next dot off `rest`.
std::string_view take_part(std::string_view& rest) {
  const auto dot = rest.find('.');
  const auto part = rest.substr(0, dot);
  rest = dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
  return part;
}

}  // namespace

bool has_block(ValueKind kind) {
  return kind != ValueKind::tokens && kind != ValueKind::loss && kind != ValueKind::clip;
}

bool has_micro_batch(ValueKind kind) {
  return kind == ValueKind::activation || kind == ValueKind::activation_gradient ||
         kind == ValueKind::saved || kind == ValueKind::tokens || kind == ValueKind::loss;
}

std::optional<Value> value_from_name(std::string_view name) {
  auto rest = name;
  const auto* const found = std::find(kValueWords.begin(), kValueWords.end(), take_part(rest));
  if (found == kValueWords.end()) return {};
  Value value;
  value.kind = static_cast<ValueKind>(found - kValueWords.begin());
  if (has_block(value.kind)) {
    const auto block = index_from(take_part(rest));
    if (!block) return {};
    value.block = BlockId(*block);
  }
  if (has_micro_batch(value.kind)) {
    const auto micro_batch = index_from(take_part(rest));
    if (!micro_batch) return {};
    value.micro_batch = *micro_batch;
  }
  if (value.kind == ValueKind::state && !rest.empty()) {
    const auto piece = index_from(take_part(rest));
    if (!piece) return {};
    value.piece = *piece;
  }
  if (value_name(value) != name) return {};  // something follows the last index
  return value;
}

bool is_name(std::string_view name) {
  return !name.empty() && name.front() != '#' && std::all_of(name.begin(), name.end(), [](char c) {
    return c > ' ' && c <= '~' && c != ',' && c != '=' && c != '@';
  });
}

bool is_place_name(std::string_view name) {
  return is_name(name) && name.find('#') == std::string_view::npos;
}

std::string number_text(double number) {
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), number);
  return {text.data(), static_cast<std::size_t>(end - text.data())};
}

}  // namespace ferry
