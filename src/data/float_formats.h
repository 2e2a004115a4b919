// The 16-bit float formats of files and 32-bit floats. Widening is exact for every value; narrowing
// rounds to nearest, ties to even, and NaN stays NaN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bf16.h"

namespace ferry {

/// IEEE 754 binary16, subnormal numbers, infinities and NaN included.
float f16_to_float(std::uint16_t bits);

/// What rounds beyond the largest value becomes an infinity.
std::uint16_t float_to_bf16(float value);
std::uint16_t float_to_f16(float value);

/// The same for many at once. Requires: wide.size() == bits.size().
void widen_bf16(std::span<const std::uint16_t> bits, std::span<float> wide);
void widen_f16(std::span<const std::uint16_t> bits, std::span<float> wide);
void narrow_bf16(std::span<const float> wide, std::span<std::uint16_t> bits);
void narrow_f16(std::span<const float> wide, std::span<std::uint16_t> bits);

/// The position of the first infinity or NaN, or nothing.
std::optional<std::size_t> first_not_finite(std::span<const float> values);

/// The position of the first value that has no bf16: it rounds to an infinity, or is one, or NaN.
std::optional<std::size_t> first_beyond_bf16(std::span<const float> values);

}  // namespace ferry
