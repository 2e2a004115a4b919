#include "device/device_clock.h"

#include <algorithm>
#include <utility>

namespace ferry {

DeviceClock::DeviceClock(Device& device, std::function<Micros()> now, Micros life)
    : now_(std::move(now)),
      life_(life),
      stream_(device.stream("epoch")),
      current_{DeviceEvent(device, DeviceEvent::Timing::kOn), {}},
      next_{DeviceEvent(device, DeviceEvent::Timing::kOn), {}} {
  record(current_);
  current_.event.wait();
  for (int reading = 0; reading < kReadings; ++reading) {
    record(next_);
    next_.event.wait();
    const Micros later = DeviceEvent::between(current_.event, next_.event);
    current_.at = std::max(current_.at, next_.at - later);
  }
}

void DeviceClock::record(Epoch& epoch) {
  epoch.at = now_();
  epoch.event.record(stream_);
}

void DeviceClock::renew() {
  if (renewing_) {
    if (!next_.event.done()) return;
    std::swap(current_, next_);
    renewing_ = false;
    ++renewals_;
  } else if (now_() - current_.at > life_) {
    record(next_);
    renewing_ = true;
  }
}

Micros DeviceClock::time_of(const DeviceEvent& event) const {
  return current_.at + DeviceEvent::between(current_.event, event);
}

}  // namespace ferry
