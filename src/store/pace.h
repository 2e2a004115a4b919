// When a drive that is held to rates may begin its requests: each behind those before it, when a
// drive of these rates would be done with it.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>

#include "store/io_engine.h"

namespace ferry {

/// Bytes per second that a drive is held to.
struct HeldRates {
  double read = 0;
  double write = 0;
  bool duplex = false;  // each way for itself; else reads and writes share the drive's time
};

/// One thread.
class Pace {
 public:
  using Clock = std::chrono::steady_clock;

  /// Requires: rates above 0.
  explicit Pace(const HeldRates& rates) : rates_(rates) {}

  /// Requests of one way follow each other: 0 or, on a duplex drive, 1 for writes.
  static constexpr std::size_t kWays = 2;
  std::size_t way(IoKind kind) const { return rates_.duplex && kind == IoKind::write ? 1 : 0; }

  /// A request comes, and no other of its way waits: what was not used meanwhile is lost.
  void arrive(IoKind kind, Clock::time_point now);

  /// When the next request of its way may begin. Who looks late loses nothing.
  Clock::time_point begins(IoKind kind, std::size_t size) const;

  /// The request begins.
  void begin(IoKind kind, std::size_t size);

 private:
  const HeldRates rates_;
  std::array<Clock::time_point, kWays> done_;  // by way: when what has begun is done
};

}  // namespace ferry
