// A point in a stream's work that other streams and the host can wait for.
#pragma once

#include <c10/core/Event.h>

#include "base/units.h"
#include "device/device.h"

namespace ferry {

/// May be recorded again and again; a wait is for the latest recording before it. An event that
/// was never recorded is done. Movable. Threads: one at a time, but for block(), done() and wait(),
/// which may come from several while none records.
class DeviceEvent {
 public:
  enum class Timing { kOff, kOn };

  explicit DeviceEvent(const Device& device, Timing timing = Timing::kOff);

  void record(const c10::Stream& stream) { event_.record(stream); }

  /// Makes what is enqueued on `stream` from now on wait, without the host waiting.
  void block(const c10::Stream& stream) const { event_.block(stream); }

  /// Says whether the work before it is done. Throws, as wait() does, when that work failed.
  bool done() const { return event_.query(); }

  /// Makes the host wait.
  void wait() const { event_.synchronize(); }

  /// The time between two events. Requires: timing is on for both, and both are done.
  static Micros between(const DeviceEvent& from, const DeviceEvent& to);

 private:
  c10::Event event_;
};

}  // namespace ferry
