// What one of several users of an accelerator holds of its memory. torch's allocator does not know
// for whom it lends; but it counts on the host, when memory is asked for and given back, so what
// changes while one user's work is launched is that user's.
#pragma once

#include <atomic>
#include <functional>

#include "base/units.h"
#include "device/device.h"

namespace ferry {

class MemoryShare {
 public:
  /// `held`: what the user has of the device already.
  MemoryShare(Device device, Bytes held);

  /// Calls `work`: memory that it takes is the user's until other work of his gives it back. Resets
  /// the device's peak. Requires: until it returns nobody else takes or gives back memory of the
  /// device. Threads: one at a time.
  void count(const std::function<void()>& work);

  /// The most that the user held at once. From any thread.
  Bytes peak() const { return {peak_.load()}; }

 private:
  const Device device_;
  Bytes held_;
  std::atomic<std::int64_t> peak_;
};

}  // namespace ferry
