// Amounts with their unit in the type: bytes and microseconds cannot be mixed or passed as counts.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace ferry {

/// An amount of memory or traffic. Signed, so that a shortage is a value too.
struct Bytes {
  std::int64_t count = 0;

  auto operator<=>(const Bytes&) const = default;
  Bytes& operator+=(Bytes other) { return count += other.count, *this; }
  Bytes& operator-=(Bytes other) { return count -= other.count, *this; }
};

constexpr Bytes operator+(Bytes a, Bytes b) { return {a.count + b.count}; }
constexpr Bytes operator-(Bytes a, Bytes b) { return {a.count - b.count}; }
constexpr Bytes operator*(Bytes a, std::int64_t n) { return {a.count * n}; }
constexpr Bytes operator*(std::int64_t n, Bytes a) { return {a.count * n}; }

/// The smallest multiple of `alignment` that is not below `size`. Requires: alignment > 0, size >=
/// 0.
constexpr Bytes round_up(Bytes size, Bytes alignment) {
  return {(size.count + alignment.count - 1) / alignment.count * alignment.count};
}

// NOLINTBEGIN(google-runtime-int): the standard fixes this parameter's type.
constexpr Bytes operator""_B(unsigned long long n) { return {static_cast<std::int64_t>(n)}; }
constexpr Bytes operator""_KiB(unsigned long long n) {
  return {static_cast<std::int64_t>(n) << 10};
}
constexpr Bytes operator""_MiB(unsigned long long n) {
  return {static_cast<std::int64_t>(n) << 20};
}
constexpr Bytes operator""_GiB(unsigned long long n) {
  return {static_cast<std::int64_t>(n) << 30};
}
// NOLINTEND(google-runtime-int)

/// A span of time, real or predicted.
struct Micros {
  double count = 0;

  auto operator<=>(const Micros&) const = default;
  Micros& operator+=(Micros other) { return count += other.count, *this; }
  double seconds() const { return count * 1e-6; }
};

constexpr Micros operator+(Micros a, Micros b) { return {a.count + b.count}; }
constexpr Micros operator-(Micros a, Micros b) { return {a.count - b.count}; }
constexpr Micros operator*(Micros a, double factor) { return {a.count * factor}; }
constexpr Micros from_seconds(double seconds) { return {seconds * 1e6}; }

/// "010": eight to some readers, ten to others; no number is read from such a text.
bool has_leading_zero(std::string_view text);

/// Reads a size: a number with a unit (B, KiB, MiB, GiB, TiB, KB, MB, GB, TB), with or without a
/// space; one letter is a power of 1024. Throws UserError saying what was expected.
/// "64 MiB", "64M" -> 67108864; "1 KB" -> 1000.
Bytes parse_bytes(std::string_view text);

/// Writes a size for people: "64.0 MiB", "512 B".
std::string to_string(Bytes size);

/// Writes a time for people: "1.25 s", "3.10 ms", "42 us".
std::string to_string(Micros time);

}  // namespace ferry
