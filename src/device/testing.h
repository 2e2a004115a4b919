// For tests: a device where there is one.
#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "device/device.h"

namespace ferry {

/// A device, or why this machine has none of that name.
struct DeviceIfHere {
  explicit DeviceIfHere(const std::string& name) {
    try {
      device.emplace(Device::open(name));
    } catch (const ResourceError& error) {
      why_not = error.what();
    }
  }

  std::optional<Device> device;
  std::string why_not;
};

}  // namespace ferry
