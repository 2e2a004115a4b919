// XXH64 (seed 0), the checksum of checkpoint manifests: as fast as memory, and a person can repeat
// it with `xxhsum -H64`. It finds damage, it does not resist an attacker.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/progress.h"

namespace ferry {

/// Hashes bytes as they come.
// Source: the xxHash specification 0.1.1, "XXH64 algorithm description".
class Xxh64 {
 public:
  void update(std::span<const std::byte> bytes);

  /// The hash of everything so far; more may follow.
  std::uint64_t value() const;

 private:
  void consume(std::span<const std::byte> stripes);  // a multiple of kStripe bytes

  static constexpr std::size_t kStripe = 32;
  std::array<std::uint64_t, 4> lanes_ = {0x60EA27EEADC0B5D6, 0xC2B2AE3D27D4EB4F, 0,
                                         0x61C8864E7A143579};
  std::array<std::byte, kStripe> rest_ = {};  // the first length_ % kStripe bytes are in use
  std::uint64_t length_ = 0;
};

/// The hash of a whole file, read in pieces of 1 MiB, which `count` counts where there is one.
std::uint64_t checksum_file(const std::filesystem::path& path, ProgressCount* count = nullptr);

/// A hash as files write it: 16 hexadecimal digits.
std::string to_hexadecimal(std::uint64_t hash);

}  // namespace ferry
