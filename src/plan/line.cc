#include "plan/line.h"

#include <charconv>
#include <cmath>

#include "base/error.h"

namespace ferry {
namespace {

constexpr std::string_view kSpaces = " \t\r";
constexpr std::size_t kMostWords = 1000;  // of a line; each field is looked for among them

// Hostile files hold lines of any length and any byte: a message shows a little of it, printable.
std::string excerpt(std::string_view found) {
  constexpr std::size_t kLongest = 60;
  std::string shown(found.substr(0, kLongest));
  for (char& c : shown) {
    if (c < ' ' || c > '~') c = '?';
  }
  return found.size() > kLongest ? shown + "..." : shown;
}

/// Of "key=value" or a flag.
std::string_view key_of(std::string_view word) { return word.substr(0, word.find('=')); }

}  // namespace

void refuse(const LineOrigin& at, std::string_view what, std::string_view expected,
            std::string_view found) {
  std::string message(at.file);
  message += ':' + std::to_string(at.line) + ": " + excerpt(what) + ": expected ";
  message += expected;
  message += ", found '" + excerpt(found) + "'";
  throw UserError(message);
}

std::string_view take_until(std::string_view& rest, char separator) {
  const auto end = rest.find(separator);
  const auto part = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  return part;
}

double number_from(const LineOrigin& at, std::string_view what, std::string_view digits) {
  double number = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number);
  if (error != std::errc() || stop != end || !std::isfinite(number) || std::signbit(number)) {
    refuse(at, what, "a number that is not negative", digits);
  }
  return number;
}

PlanLine::PlanLine(LineOrigin origin, std::string_view text) : origin_(origin) {
  words_.reserve(12);  // as many as a task has
  read_.reserve(12);
  while (true) {
    const auto begin = text.find_first_not_of(kSpaces);
    if (begin == std::string_view::npos || text[begin] == '#') return;
    text.remove_prefix(begin);
    const auto word = text.substr(0, text.find_first_of(kSpaces));
    if (words_.size() == kMostWords) {
      refuse(origin_, entity(), "at most " + std::to_string(kMostWords) + " words", word);
    }
    words_.push_back(word);
    read_.push_back(false);
    text.remove_prefix(word.size());
  }
}

std::string_view PlanLine::name() const {
  if (words_.size() < 2) refuse(origin_, entity(), "a name behind it", "");
  return words_[1];
}

std::optional<std::string_view> PlanLine::optional_text(std::string_view key) {
  for (std::size_t i = 2; i < words_.size(); ++i) {
    const auto word = words_[i];
    if (read_[i] || word.size() <= key.size() || word[key.size()] != '=') continue;
    if (!word.starts_with(key)) continue;
    read_[i] = true;
    return word.substr(key.size() + 1);
  }
  return {};
}

std::string_view PlanLine::text(std::string_view key) {
  const auto found = optional_text(key);
  if (!found) refuse(origin_, entity(), "a field " + std::string(key) + "=", "none");
  return *found;
}

std::int64_t PlanLine::whole(std::string_view key, std::string_view digits, Limits limits) const {
  std::int64_t number = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number);
  if (error != std::errc() || stop != end || number < limits.least || number > limits.most) {
    refuse(origin_, key,
           "a whole number from " + std::to_string(limits.least) + " to " +
               std::to_string(limits.most),
           digits);
  }
  return number;
}

int PlanLine::integer(std::string_view key, Limits limits) {
  return static_cast<int>(whole(key, text(key), limits));
}

int PlanLine::integer_or(std::string_view key, int otherwise, Limits limits) {
  const auto found = optional_text(key);
  return found ? static_cast<int>(whole(key, *found, limits)) : otherwise;
}

Bytes PlanLine::bytes(std::string_view key) {
  return {whole(key, text(key), {0, std::numeric_limits<std::int64_t>::max()})};
}

Bytes PlanLine::bytes_or_zero(std::string_view key) {
  const auto found = optional_text(key);
  return found ? Bytes{whole(key, *found, {0, std::numeric_limits<std::int64_t>::max()})} : Bytes{};
}

double PlanLine::number_or_zero(std::string_view key) {
  const auto found = optional_text(key);
  return found ? number_from(origin_, key, *found) : 0.0;
}

bool PlanLine::flag(std::string_view key) {
  for (std::size_t i = 2; i < words_.size(); ++i) {
    if (read_[i] || words_[i] != key) continue;
    read_[i] = true;
    return true;
  }
  return false;
}

std::size_t PlanLine::choose(std::string_view what, std::string_view found,
                             std::span<const std::string_view> choices) const {
  std::string expected = "one of";
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (choices[i] == found) return i;
    expected += ' ';
    expected += choices[i];
  }
  refuse(origin_, what, expected, found);
}

std::size_t PlanLine::choice(std::string_view key, std::span<const std::string_view> choices) {
  return choose(key, text(key), choices);
}

std::size_t PlanLine::choice_or(std::string_view key, std::span<const std::string_view> choices,
                                std::size_t absent) {
  const auto found = optional_text(key);
  return found ? choose(key, *found, choices) : absent;
}

std::size_t PlanLine::name_choice(std::span<const std::string_view> choices) const {
  return choose(entity(), name(), choices);
}

bool PlanLine::was_read(std::string_view key) const {
  for (std::size_t i = 2; i < words_.size(); ++i) {
    if (read_[i] && key_of(words_[i]) == key) return true;
  }
  return false;
}

void PlanLine::check_all_read() const {
  for (std::size_t i = 2; i < words_.size(); ++i) {
    if (read_[i]) continue;
    const std::string_view key = key_of(words_[i]);
    if (was_read(key)) {
      throw UserError(std::string(origin_.file) + ':' + std::to_string(origin_.line) + ": '" +
                      excerpt(key) + "' is given twice");
    }
    refuse(origin_, entity(), "only fields that docs/formats/plan.md lists", words_[i]);
  }
}

}  // namespace ferry
