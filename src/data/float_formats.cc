#include "data/float_formats.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace ferry {
namespace {

constexpr std::uint32_t kInfinity = 0x7F800000;

/// The position of the first value whose bit pattern without the sign is at least `least`.
std::optional<std::size_t> first_of_at_least(std::uint32_t least, std::span<const float> values) {
  const auto magnitude = [](float value) {
    return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFF;
  };
  std::uint32_t largest = 0;  // a loop without an exit is vectorised
  for (const float value : values) largest = std::max(largest, magnitude(value));
  if (largest < least) return std::nullopt;
  const auto found =
      std::ranges::find_if(values, [&](float value) { return magnitude(value) >= least; });
  return static_cast<std::size_t>(found - values.begin());
}

}  // namespace

float f16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1Fu;
  const std::uint32_t fraction = bits & 0x3FFu;
  if (exponent == 0x1F) {  // infinity or NaN
    return std::bit_cast<float>(sign | 0x7F800000u | (fraction << 13));
  }
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24, exact in a float
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

std::uint16_t float_to_f16(float value) {
  constexpr std::uint32_t kSmallestNormal = 0x38800000;    // 2^-14
  constexpr std::uint32_t kRoundsToInfinity = 0x477FF000;  // 65520, half way behind the largest
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  std::uint32_t half = 0;
  if (magnitude > 0x7F800000u) {
    half = 0x7E00;  // NaN
  } else if (magnitude >= kRoundsToInfinity) {
    half = 0x7C00;
  } else if (magnitude >= kSmallestNormal) {
    half = ((magnitude + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13) - (112u << 10);
  } else {  // subnormal: the last place of 0.5 is 2^-24, so this sum rounds to multiples of it
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    half = std::bit_cast<std::uint32_t>(sum) - std::bit_cast<std::uint32_t>(0.5f);
  }
  return static_cast<std::uint16_t>(sign | half);
}

// The calls are written out here, so that the compiler sees into them and vectorises the loops.
void widen_bf16(std::span<const std::uint16_t> bits, std::span<float> wide) {
  FERRY_CHECK(bits.size() == wide.size(), "as many floats as there are 16-bit values");
  for (std::size_t i = 0; i < bits.size(); ++i) wide[i] = bf16_to_float(bits[i]);
}

void widen_f16(std::span<const std::uint16_t> bits, std::span<float> wide) {
  FERRY_CHECK(bits.size() == wide.size(), "as many floats as there are 16-bit values");
  for (std::size_t i = 0; i < bits.size(); ++i) wide[i] = f16_to_float(bits[i]);
}

void narrow_bf16(std::span<const float> wide, std::span<std::uint16_t> bits) {
  FERRY_CHECK(bits.size() == wide.size(), "as many 16-bit values as there are floats");
  for (std::size_t i = 0; i < wide.size(); ++i) bits[i] = float_to_bf16(wide[i]);
}

void narrow_f16(std::span<const float> wide, std::span<std::uint16_t> bits) {
  FERRY_CHECK(bits.size() == wide.size(), "as many 16-bit values as there are floats");
  for (std::size_t i = 0; i < wide.size(); ++i) bits[i] = float_to_f16(wide[i]);
}

std::optional<std::size_t> first_not_finite(std::span<const float> values) {
  return first_of_at_least(kInfinity, values);
}

std::optional<std::size_t> first_beyond_bf16(std::span<const float> values) {
  return first_of_at_least(kInfinity - 0x8000, values);  // half of bf16's last place below it
}

}  // namespace ferry
