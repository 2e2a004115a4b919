#include "device/memory_limit.h"

#include <ATen/ATen.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <utility>

namespace ferry {
namespace {

GpuShare& share() {
  static GpuShare given;
  return given;
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
  limit.device.reset_peak();
  return false;
}

}  // namespace

void hold_gpus(GpuShare given) { share() = std::move(given); }

const GpuShare& gpu_share() { return share(); }

std::string limit_memory(std::span<const MemoryLimit> limits) {
  const auto loose = std::ranges::find_if_not(limits, is_held);
  if (loose == limits.end()) return "";
  return "nothing holds " + loose->device.name() + " to " + to_string(loose->most) + ", since " +
         (limits.size() > 1 ? "torch's limit is one for all devices, or " : "") +
         "this torch takes no limit";
}

}  // namespace ferry
