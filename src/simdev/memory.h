// The memory of one simulated device: a cap that is enforced, and blocks that are reused in stream
// order, as CUDA's caching allocator does. Knows nothing of torch.
//
// A block that is given back may still be used by tasks queued on its stream, so it is reused only
// by later allocations of that stream, at once and without waiting. What is in use stays within the
// cap. Blocks that wait for reuse stay within what the cap leaves, or kMostBeyondCap where that is
// less (within a tight cap every kernel's memory would go back and be fetched anew, page fault by
// page fault); beyond it the oldest go back to the system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <vector>

#include "base/device_block.h"
#include "base/units.h"
#include "simdev/simdev.h"

namespace ferry {

/// Memory lent by a DeviceMemory.
struct MemoryBlock {
  std::byte* data = nullptr;
  Bytes size;               // asked for, rounded up to DeviceMemory::kAlignment
  Bytes capacity;           // really there; at most a quarter more, since blocks fit several sizes
  std::int64_t stream = 0;  // whose order the block follows
  bool fresh = false;       // came from the system, not from an earlier user
};

/// All calls are safe from any thread.
class DeviceMemory {
 public:
  static constexpr Bytes kAlignment = kDeviceBlock;
  static constexpr Bytes kMostBeyondCap = kSimReuse;

  explicit DeviceMemory(Bytes cap) : cap_(cap) {}
  /// Returns the blocks that wait for reuse. Those still lent are freed by whoever has them.
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  struct Allocation {
    bool fits = false;                 // else nothing was taken
    MemoryBlock block;                 // when it fits
    std::vector<MemoryBlock> surplus;  // to be released by the caller in their streams' order
  };
  /// Requires: size >= 0. Throws std::bad_alloc when the system itself has no memory left.
  Allocation allocate(Bytes size, std::int64_t stream);

  /// Takes a block back. Returns blocks that the caller releases in their streams' order.
  std::vector<MemoryBlock> give_back(const MemoryBlock& block);

  /// Gives up all blocks that wait for reuse; the caller releases them in their streams' order.
  std::vector<MemoryBlock> take_unused();

  /// Frees a block's memory for good.
  static void release(const MemoryBlock& block);

  Bytes cap() const { return cap_; }
  Bytes in_use() const;
  Bytes peak() const;
  Bytes unused() const;  // waits for reuse
  void reset_peak();

 private:
  struct Unused {
    MemoryBlock block;
    std::uint64_t age;  // counts up
    bool operator<(const Unused& other) const;
  };
  std::vector<MemoryBlock> trim();

  const Bytes cap_;
  mutable std::mutex mutex_;  // guards everything below
  std::set<Unused> unused_;   // by stream, then capacity, then age
  Bytes in_use_, peak_;       // of MemoryBlock::size
  Bytes unused_capacity_;
  std::uint64_t next_age_ = 0;
};

}  // namespace ferry
