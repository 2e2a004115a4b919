// One block of host memory, taken once at start, that a plan's slots divide by offset.
//
// The slab does not know which slots are in use: the plan decides, and verify() has proved that
// slots which share bytes are never alive together.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/progress.h"
#include "base/units.h"
#include "store/mapping.h"

namespace ferry {

/// All bytes of one place in DRAM. The address never changes, so a device may register it.
class HostSlab {
 public:
  /// Reserves `size` bytes, zeroed. Throws ResourceError naming need and have when refused.
  explicit HostSlab(Bytes size) : mapping_(size) {}

  /// The slot [offset, offset + size). Requires: it lies within the slab.
  /// Lifetime: must not be used after the slab is gone. Threads: from any.
  std::span<std::byte> at(Bytes offset, Bytes size) const;

  /// The whole slab, 4096 aligned, for registering with a device.
  std::span<std::byte> bytes() const { return mapping_.bytes(); }

  Bytes size() const { return {static_cast<std::int64_t>(mapping_.bytes().size())}; }

  /// Says which of the box's NUMA nodes its pages are taken from: Mapping::lie_on(). Before
  /// touch().
  std::string lie_on(std::span<const int> nodes) { return mapping_.lie_on(nodes); }

  /// Backs all pages now, on `threads` threads, so that no step pays for page faults and a lack of
  /// memory shows before the first one. Contents stay. The listener hears of bytes. Throws
  /// ResourceError when memory is short.
  void touch(int threads, PhaseListener& listener = nobody()) { mapping_.touch(threads, listener); }

 private:
  Mapping mapping_;
};

}  // namespace ferry
