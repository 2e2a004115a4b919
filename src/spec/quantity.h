// Numbers with units as text, read strictly: no octal, no digit separators, no infinities.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/units.h"

namespace ferry {

struct Unit {
  std::string_view name;
  double factor;  // of the base unit, which has 1
};

/// Units of time (base: microsecond), transfer rate (B/s), arithmetic (FLOP/s) and update rate
/// (parameters/s), smallest first.
std::span<const Unit> time_units();
std::span<const Unit> rate_units();
std::span<const Unit> flops_units();
std::span<const Unit> parameter_units();

/// Nothing when `text` is not a decimal whole number or does not fit; 010 is refused, since some
/// readers take it for 8.
std::optional<std::int64_t> parse_whole(std::string_view text);

/// Nothing when `text` is not a finite decimal number.
std::optional<double> parse_real(std::string_view text);

/// A number and one of `units`, in the base unit. Nothing when it is not that.
std::optional<double> parse_quantity(std::string_view text, std::span<const Unit> units);

/// The shortest decimal that reads back to `value`; floats have a point, as YAML 1.1 wants.
std::string real_text(double value);

/// `value` in the unit that gives the shortest text, at least 1 of it; it reads back exactly.
std::string quantity_text(double value, std::span<const Unit> units);

/// The same for sizes: "64 MiB", "1000 B".
std::string bytes_text(Bytes size);

}  // namespace ferry
