// The words of the text form for the plan's enumerations, both ways. The order of each table is
// that of its enumeration.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/enum_index.h"
#include "plan/plan.h"

namespace ferry {

inline constexpr std::array<std::string_view, 2> kModeWords = {"train", "evaluate"};
inline constexpr std::array<std::string_view, 2> kPrecisionWords = {"bf16", "fp32"};
inline constexpr std::array<std::string_view, 3> kPlaceWords = {"device", "host", "drive"};
inline constexpr std::array<std::string_view, 3> kResourceWords = {"compute", "copy", "host"};
inline constexpr std::array<std::string_view, 8> kTaskWords = {
    "load", "forward", "backward", "copy", "clip", "update", "redo", "work"};
inline constexpr std::array<std::string_view, 12> kValueWords = {"W", "S", "G", "N", "A", "dA",
                                                                 "X", "L", "C", "K", "R", "O"};

template <typename Enum, std::size_t kCount>
std::string_view word_in(const std::array<std::string_view, kCount>& words, Enum value) {
  return words[to_index(value)];
}

inline std::string_view to_string(PlanMode mode) { return word_in(kModeWords, mode); }
inline std::string_view to_string(PlaceKind kind) { return word_in(kPlaceWords, kind); }
inline std::string_view to_string(ResourceKind kind) { return word_in(kResourceWords, kind); }
inline std::string_view to_string(TaskKind kind) { return word_in(kTaskWords, kind); }
inline std::string_view to_string(ValueKind kind) { return word_in(kValueWords, kind); }

/// Which indices a value of this kind carries: "W.block", "A.block.micro_batch", "X.micro_batch".
/// A state may have a piece behind them.
bool has_block(ValueKind kind);
bool has_micro_batch(ValueKind kind);

/// The value that value_name() wrote, without its bytes; nothing when the name is malformed.
std::optional<Value> value_from_name(std::string_view name);

/// True when `name` may stand in a plan: not empty, printable ASCII, none of " ,=@", and no '#' in
/// front. A place's name has no '#' at all, since that numbers instances.
bool is_name(std::string_view name);
bool is_place_name(std::string_view name);

/// The shortest text that reads back as the same number.
std::string number_text(double number);

}  // namespace ferry
