// Enumerations as positions in a table that has an element for each.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>

namespace ferry {

/// 0 for the first enumerator, and so on. Requires: enumerators without values of their own.
template <typename Enum>
requires std::is_enum_v<Enum>
constexpr std::size_t to_index(Enum value) { return static_cast<std::size_t>(value); }

}  // namespace ferry
