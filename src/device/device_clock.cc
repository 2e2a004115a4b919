#include "device/device_clock.h"

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
  current_.at = now_();  // a stream's first event may take the driver long
}

void DeviceClock::record(Epoch& epoch) {
  epoch.event.record(stream_);
  epoch.at = now_();
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
