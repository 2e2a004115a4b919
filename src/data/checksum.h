// XXH64 (seed 0), the checksum of checkpoint manifests: as fast as memory, and a person can repeat
// it with `xxhsum -H64`. It finds damage, it does not resist an attacker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/progress.h"

struct XXH64_state_s;

namespace ferry {

/// Hashes bytes as they come, by libxxhash.
class Xxh64 {
 public:
  Xxh64();

  void update(std::span<const std::byte> bytes);

  /// The hash of everything so far; more may follow.
  std::uint64_t value() const;

 private:
  struct Free {
    void operator()(XXH64_state_s* state) const;
  };

  std::unique_ptr<XXH64_state_s, Free> state_;
};

/// The hash of a whole file, read in pieces of 1 MiB, which `count` counts where there is one.
std::uint64_t checksum_file(const std::filesystem::path& path, ProgressCount* count = nullptr);

/// A hash as files write it: 16 hexadecimal digits.
std::string to_hexadecimal(std::uint64_t hash);

}  // namespace ferry
