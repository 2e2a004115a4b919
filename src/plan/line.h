// One line of a plan's text form, split into its words: an entity, a name, flags and "key=value"
// fields in any order.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace ferry {

/// Where a line stands, for messages.
struct LineOrigin {
  std::string_view file;
  int line = 0;
};

/// Throws UserError "FILE:LINE: WHAT: expected EXPECTED, found 'FOUND'".
[[noreturn]] void refuse(const LineOrigin& at, std::string_view what, std::string_view expected,
                         std::string_view found);

/// Reads a line's fields once each; check_all_read() refuses the rest and what is there twice.
/// Views into the text: must not outlive it. Every reader throws UserError when the field is
/// missing or malformed.
class PlanLine {
 public:
  /// Splits `text`. A word that starts with '#' begins a comment.
  PlanLine(LineOrigin origin, std::string_view text);

  bool empty() const { return words_.empty(); }
  const LineOrigin& origin() const { return origin_; }
  std::string_view entity() const { return words_.front(); }
  std::string_view name() const;

  /// Inclusive limits of a number.
  struct Limits {
    std::int64_t least = 0;
    std::int64_t most = std::numeric_limits<int>::max();
  };

  std::optional<std::string_view> optional_text(std::string_view key);
  std::string_view text(std::string_view key);
  int integer(std::string_view key, Limits limits);
  int integer_or(std::string_view key, int otherwise, Limits limits);
  Bytes bytes(std::string_view key);
  Bytes bytes_or_zero(std::string_view key);
  double number_or_zero(std::string_view key);
  bool flag(std::string_view key);

  /// Reads a word of a table and returns its index.
  std::size_t choice(std::string_view key, std::span<const std::string_view> choices);
  std::size_t choice_or(std::string_view key, std::span<const std::string_view> choices,
                        std::size_t absent);
  /// The same for the word that stands where other lines have their name.
  std::size_t name_choice(std::span<const std::string_view> choices) const;

  void check_all_read() const;

 private:
  bool was_read(std::string_view key) const;
  std::size_t choose(std::string_view what, std::string_view found,
                     std::span<const std::string_view> choices) const;
  std::int64_t whole(std::string_view key, std::string_view digits, Limits limits) const;

  LineOrigin origin_;
  std::vector<std::string_view> words_;  // entity, name, then fields
  std::vector<bool> read_;               // per word
};

/// Reads a finite number that is not negative.
double number_from(const LineOrigin& at, std::string_view what, std::string_view digits);

/// Takes the text up to the next `separator` off `rest`.
std::string_view take_until(std::string_view& rest, char separator);

}  // namespace ferry
