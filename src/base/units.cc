#include "base/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/error.h"

namespace ferry {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};

// One letter is a power of 1024, as in memory tools: 8G and 8g are 8 GiB.
constexpr auto kUnits = std::to_array<Unit>({
    {"B", 1},
    {"KiB", 0x1p10},
    {"MiB", 0x1p20},
    {"GiB", 0x1p30},
    {"TiB", 0x1p40},
    {"KB", 1e3},
    {"MB", 1e6},
    {"GB", 1e9},
    {"TB", 1e12},
    {"K", 0x1p10},
    {"M", 0x1p20},
    {"G", 0x1p30},
    {"T", 0x1p40},
    {"k", 0x1p10},
    {"m", 0x1p20},
    {"g", 0x1p30},
    {"t", 0x1p40},
});

std::string print(const char* format, double value, const char* unit) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), format, value, unit);
  return text.data();
}

}  // namespace

bool has_leading_zero(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9';
}

Bytes parse_bytes(std::string_view text) {
  const auto fail = [&]() -> Bytes {
    throw UserError(
        "'" + std::string(text) +
        "' is not a size; expected a number with a unit (B, KiB, MiB, GiB, TiB, KB, MB, "
        "GB, TB; G is GiB), for example 64 MiB");
  };
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number) || number < 0) return fail();
  if (has_leading_zero(text)) return fail();
  auto unit = text.substr(static_cast<std::size_t>(end - text.data()));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  for (const auto& [name, factor] : kUnits) {
    if (unit != name) continue;
    const double bytes = number * factor;
    if (bytes >= static_cast<double>(std::numeric_limits<std::int64_t>::max())) return fail();
    return {static_cast<std::int64_t>(std::llround(bytes))};
  }
  return fail();
}

std::string to_string(Bytes size) {
  const double n = static_cast<double>(size.count);
  const double magnitude = std::abs(n);
  if (magnitude < 1024) return std::to_string(size.count) + " B";
  if (magnitude < 1024.0 * 1024) return print("%.1f %s", n / 1024.0, "KiB");
  if (magnitude < 1073741824.0) return print("%.1f %s", n / 1048576.0, "MiB");
  if (magnitude < 1099511627776.0) return print("%.1f %s", n / 1073741824.0, "GiB");
  return print("%.2f %s", n / 1099511627776.0, "TiB");
}

std::string to_string(Micros time) {
  if (time.count >= 1e6) return print("%.2f %s", time.count * 1e-6, "s");
  if (time.count >= 1e3) return print("%.2f %s", time.count * 1e-3, "ms");
  return print("%.0f %s", time.count, "us");
}

}  // namespace ferry
