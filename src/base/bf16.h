// bfloat16, the upper half of a float.
#pragma once

#include <bit>
#include <cstdint>

namespace ferry {

/// The value of a bf16 bit pattern, exact.
constexpr float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

}  // namespace ferry
