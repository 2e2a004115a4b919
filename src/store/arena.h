// A fixed budget of host memory, handed out as leases.
//
// The whole budget is reserved in the constructor and never grows: what does not fit is refused at
// once, not halfway through a step. For staging buffers, which the plan counts but does not place
// (slots that it does place live in a HostSlab). Safe to use from any thread.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <span>

#include "base/units.h"
#include "store/mapping.h"

namespace ferry {

class Arena;

/// One region of an Arena, returned to it on destruction. Must not outlive the Arena.
class Lease {
 public:
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  ~Lease();

  /// The leased memory, as long as was asked for, aligned to Arena::kAlignment. Contents are
  /// undefined at first. Empty after a move.
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  friend class Arena;
  Lease(Arena& arena, std::span<std::byte> bytes) : arena_(&arena), bytes_(bytes) {}

  Arena* arena_;  // null after a move
  std::span<std::byte> bytes_;
};

class Arena {
 public:
  static constexpr Bytes kAlignment = 4096_B;  // what O_DIRECT asks of us

  /// Reserves the budget, rounded down to kAlignment. Requires: budget >= 0.
  /// Throws ResourceError naming need and have when the machine refuses.
  explicit Arena(Bytes budget);

  /// Requires: every lease has been returned.
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Leases `size` bytes, or nothing when no free region is large enough. A lease takes whole
  /// multiples of kAlignment from the budget. Requires: size > 0.
  std::optional<Lease> lease(Bytes size);

  Bytes budget() const { return budget_; }

  /// What the leases alive now take from the budget, and the most they ever took.
  Bytes in_use() const;
  Bytes peak() const;

 private:
  friend class Lease;
  void give_back(std::span<std::byte> region);

  const Bytes budget_;
  const Mapping memory_;

  mutable std::mutex mutex_;     // guards everything below
  std::map<Bytes, Bytes> free_;  // offset -> length, multiples of kAlignment, never adjacent
  Bytes in_use_;
  Bytes peak_;
};

}  // namespace ferry
