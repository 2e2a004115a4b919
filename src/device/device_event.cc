#include "device/device_event.h"

namespace ferry {

DeviceEvent::DeviceEvent(const Device& device, Timing timing)
    : event_(device.torch_device().type(), timing == Timing::kOn
                                               ? c10::EventFlag::BACKEND_DEFAULT
                                               : c10::EventFlag::PYTORCH_DEFAULT) {}

Micros DeviceEvent::between(const DeviceEvent& from, const DeviceEvent& to) {
  return {from.event_.elapsedTime(to.event_) * 1e3};
}

}  // namespace ferry
