// What devices hand out memory in.
#pragma once

#include "base/units.h"

namespace ferry {

/// Every tensor and every slot on a device takes whole blocks of so much: CUDA's allocator in torch
/// does so, and simulated devices.
inline constexpr Bytes kDeviceBlock = 512_B;

}  // namespace ferry
