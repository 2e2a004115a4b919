// The 16-bit float formats of files as 32-bit floats. Widening is exact for every value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace ferry {

/// bfloat16: the upper half of a float.
float bf16_to_float(std::uint16_t bits);

/// IEEE 754 binary16, subnormal numbers, infinities and NaN included.
float f16_to_float(std::uint16_t bits);

/// The same for many at once. Requires: wide.size() == bits.size().
void widen_bf16(std::span<const std::uint16_t> bits, std::span<float> wide);
void widen_f16(std::span<const std::uint16_t> bits, std::span<float> wide);

/// The position of the first infinity or NaN, or nothing.
std::optional<std::size_t> first_not_finite(std::span<const float> values);

}  // namespace ferry
