// The words of the text form for the plan's enumerations, both ways. The order of each table is
// that of its enumeration.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "plan/plan.h"

namespace ferry {

inline constexpr std::array<std::string_view, 2> kModeWords = {"train", "evaluate"};
inline constexpr std::array<std::string_view, 2> kPrecisionWords = {"bf16", "fp32"};
inline constexpr std::array<std::string_view, 3> kPlaceWords = {"device", "host", "drive"};
inline constexpr std::array<std::string_view, 3> kResourceWords = {"compute", "copy", "host"};
inline constexpr std::array<std::string_view, 7> kTaskWords = {
    "load", "forward", "backward", "copy", "clip", "update", "work"};
inline constexpr std::array<std::string_view, 10> kValueWords = {"W",  "S", "G", "N", "A",
                                                                 "dA", "X", "L", "C", "K"};

inline std::string_view word(PlanMode mode) { return kModeWords[static_cast<std::size_t>(mode)]; }
inline std::string_view word(Precision p) { return kPrecisionWords[static_cast<std::size_t>(p)]; }
inline std::string_view word(PlaceKind kind) { return kPlaceWords[static_cast<std::size_t>(kind)]; }
inline std::string_view word(ResourceKind kind) {
  return kResourceWords[static_cast<std::size_t>(kind)];
}
inline std::string_view word(TaskKind kind) { return kTaskWords[static_cast<std::size_t>(kind)]; }
inline std::string_view word(ValueKind kind) { return kValueWords[static_cast<std::size_t>(kind)]; }

/// Which indices a value of this kind carries: "W.block", "A.block.micro_batch", "X.micro_batch".
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
