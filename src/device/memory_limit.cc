#include "device/memory_limit.h"

#include <ATen/ATen.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>

#include "device/allocator_settings.h"

namespace ferry {
namespace {

Bytes memory_of(const Device& device) {
  const c10::Device which = device.torch_device();
  const auto [free, total] = c10::getDeviceAllocator(which.type())->getMemoryInfo(which.index());
  return {static_cast<std::int64_t>(total)};
}

/// Whether an allocation that would go beyond the limit fails. It does not touch what it gets.
bool is_held(const MemoryLimit& limit) {
  const auto use = limit.device.memory_use();
  const Bytes beyond = std::max(limit.most - use.live - use.kept, 0_B) + 1_MiB;
  try {
    at::empty({beyond.count}, at::TensorOptions(at::kByte).device(limit.device.torch_device()));
  } catch (const c10::OutOfMemoryError&) {
    return true;
  }
  c10::getDeviceAllocator(limit.device.torch_device().type())->emptyCache({0, 0});
  return false;
}

}  // namespace

std::string limit_memory(std::span<const MemoryLimit> limits) {
  std::string why = "this torch takes no limit";
  if (!limits.empty() && !limits.front().device.simulated()) {
    double fraction = 0;
    for (const auto& [device, most] : limits) {
      fraction = std::max(
          fraction, static_cast<double>(most.count) / static_cast<double>(memory_of(device).count));
    }
    try {
      // A millionth is 24 KB of 24 GB: rounded up, so that a plan's last bytes are within it.
      set_allocator("per_process_memory_fraction", std::to_string(std::min(1.0, fraction + 1e-6)));
    } catch (const c10::Error& error) {
      why += ": " + std::string(error.what_without_backtrace());
    }
  }
  const auto loose = std::ranges::find_if_not(limits, is_held);
  if (loose == limits.end()) return "";
  return "nothing holds " + loose->device.name() + " to " + to_string(loose->most) + ", since " +
         (limits.size() > 1 ? "torch's limit is one for all devices, or " : "") + why;
}

}  // namespace ferry
