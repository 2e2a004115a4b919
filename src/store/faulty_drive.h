// Drives in memory that fail on purpose. For tests of whoever moves bytes to drives.
#pragma once

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>

#include "store/io_engine.h"

namespace ferry {

enum class DriveFault {
  none,
  fail,     // nothing is moved, `error` is told
  shorten,  // the first half is moved, and told as that
  tear,     // the first half is moved, `error` is told
  delay,    // comes `delay` later; others pass it
  forget    // no answer ever comes
};

/// Which requests meet which fault: `count` ones from the one numbered `first`, counted from 0 over
/// all drives, or over the requests of one kind.
struct DriveFaults {
  DriveFault fault = DriveFault::none;
  std::int64_t first = 0;
  std::int64_t count = 1;
  std::optional<IoKind> only = {};
  int error = EIO;
  std::chrono::milliseconds delay{20};
};

/// Makes drives in memory; nothing is written to their folders. Bytes are moved when a request
/// completes, not when it begins, and those that wait together complete last first: who reads or
/// changes memory too early sees it. Must outlive the spaces that use it.
class FaultyDrives {
 public:
  explicit FaultyDrives(DriveFaults faults = {}) : faults_(faults) {}

  /// For DriveSpace::Setup::engine.
  EngineFactory engines();

  /// How many requests have begun that a fault could have met. From any thread.
  std::int64_t requests() const { return requests_; }

 private:
  const DriveFaults faults_;
  std::atomic<std::int64_t> requests_ = 0;
};

}  // namespace ferry
