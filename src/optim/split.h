// The fp32 master weight as two 16-bit halves, exactly invertible: the upper half is the bf16
// weight that devices compute with, the lower half waits on the host for the next update.
//
// The upper half is rounded to nearest, ties away from zero. Nearest even would not do: at a tie it
// maps two masters to the same pair. Truncation would bias the weights. The two roundings differ on
// exactly 32,640 patterns that are not NaN. A NaN may become infinite or zero in `hi` alone, so an
// update must look for non-finite results itself (adamw.h does).
#pragma once

#include <cstdint>

namespace ferry {

/// The bf16 weight of a master's bit pattern: (bits + 0x8000) >> 16, modulo 2^32.
constexpr std::uint16_t split_hi(std::uint32_t bits) {
  return static_cast<std::uint16_t>((bits + 0x8000U) >> 16);
}

/// The half that bf16 drops. Read as int16 it is bits - (hi << 16).
constexpr std::uint16_t split_lo(std::uint32_t bits) { return static_cast<std::uint16_t>(bits); }

/// The master's bit pattern: join(split_hi(x), split_lo(x)) == x for all 2^32 patterns x.
constexpr std::uint32_t join(std::uint16_t hi, std::uint16_t lo) {
  // lo >> 15 is the carry that rounding added to hi.
  return static_cast<std::uint32_t>(static_cast<std::uint16_t>(hi - (lo >> 15))) << 16 | lo;
}

}  // namespace ferry
