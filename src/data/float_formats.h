// The 16-bit float formats of files as 32-bit floats. Widening is exact for every value.
#pragma once

#include <cstdint>

namespace ferry {

/// bfloat16: the upper half of a float.
float bf16_to_float(std::uint16_t bits);

/// IEEE 754 binary16, subnormal numbers, infinities and NaN included.
float f16_to_float(std::uint16_t bits);

}  // namespace ferry
