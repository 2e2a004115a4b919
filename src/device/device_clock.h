// A device's events on the host's clock.
//
// Devices tell times between events, CUDA by a float of milliseconds: after a day its steps are 8
// ms long. So the event from which times count is renewed, without anybody waiting.
#pragma once

#include <c10/core/Stream.h>

#include <functional>

#include "base/units.h"
#include "device/device.h"
#include "device/device_event.h"

namespace ferry {

/// Movable; one thread. Must not outlive the device.
class DeviceClock {
 public:
  /// Steps of 4 us.
  static constexpr Micros kLife{60e6};

  /// `now` is the host's clock. Makes the host wait, a few times, for an empty stream: the reading
  /// of both clocks with the least between them counts, so that two devices' clocks agree. Waking a
  /// stream up takes 10 us, its first event longer, and a thread may lose its core.
  DeviceClock(Device& device, std::function<Micros()> now, Micros life = kLife);

  /// Counts from a later event when the one of now is older than its life: call it once per step.
  /// Never waits, so that the later event takes effect in a call after the one that records it.
  /// What is in flight may be asked for all the same; times before and after may be microseconds
  /// apart.
  void renew();

  /// How often it has counted from a later event.
  int renewals() const { return renewals_; }

  /// When what the event was recorded behind was done. Requires: it is done, timing is on.
  Micros time_of(const DeviceEvent& event) const;

 private:
  struct Epoch {
    DeviceEvent event;
    Micros at;  // of the host's clock, just before it was recorded on a stream that does no more
  };

  void record(Epoch& epoch);

  static constexpr int kReadings = 8;

  std::function<Micros()> now_;
  Micros life_;
  c10::Stream stream_;
  Epoch current_, next_;
  bool renewing_ = false;  // next_ is recorded
  int renewals_ = 0;
};

}  // namespace ferry
