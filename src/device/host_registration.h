// Host memory that a device copies from and to without the CPU: page-locked for DMA.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/units.h"
#include "device/device.h"

namespace ferry {

/// How one make of device locks host pages. Both return an empty text, or what went wrong.
struct PageLocking {
  std::function<std::string(std::span<std::byte>)> lock;
  std::function<std::string(std::span<std::byte>)> unlock;
};

/// Registers a range of host memory with a device for as long as it lives. Movable; one thread.
/// The memory must outlive it, and no copy may be under way when it goes.
class HostRegistration {
 public:
  /// Drivers refuse registrations of several hundred GiB at once; chunks of this size pass.
  static constexpr Bytes kLargestChunk = 64_GiB;

  /// Page-locks `memory`, so that copies are asynchronous. For sim only where its options say how
  /// much may be locked.
  /// Slow (seconds for tens of GiB): the listener hears of bytes. Throws ResourceError when the
  /// driver refuses; copies then work without it, but the host waits for them. Requires: `memory`
  /// starts on a page.
  HostRegistration(const Device& device, std::span<std::byte> memory,
                   PhaseListener& listener = nobody());

  /// The same with a given way of locking.
  HostRegistration(PageLocking locking, std::span<std::byte> memory, Bytes largest_chunk,
                   PhaseListener& listener = nobody());

  ~HostRegistration();
  HostRegistration(HostRegistration&& other) noexcept;
  HostRegistration& operator=(HostRegistration&&) = delete;

 private:
  void lock(std::span<std::byte> memory, Bytes largest_chunk, PhaseListener& listener);
  void unlock_all();

  PageLocking locking_;
  std::vector<std::span<std::byte>> locked_;  // chunks, in the order of locking
};

}  // namespace ferry
