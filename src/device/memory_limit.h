// The most that torch's allocator may hold of an accelerator, whatever a plan or a kernel asks for.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/units.h"
#include "device/device.h"

namespace ferry {

/// An accelerator, and the most that this process may hold of it in tensors. Logical devices share
/// one: then it is the sum of theirs.
struct MemoryLimit {
  const Device& device;
  Bytes most;
};

/// The most that this process may hold of GPU cuda:`index`, its context included, when `free` is
/// left of it by others; nothing: it will not be used.
using GpuShare = std::function<std::optional<Bytes>(int index, Bytes free)>;

/// Holds GPUs to these shares from their first use in this process on: torch's allocator learns its
/// limit when it starts, and none later. Without effect after that. The limit is a part of each
/// GPU's memory that is one for all GPUs: the largest that a share asks for. What the user has set
/// by PYTORCH_ALLOC_CONF stays.
void hold_gpus(GpuShare share);

/// What hold_gpus() was given last; empty at first.
const GpuShare& gpu_share();

/// Tries on each device that an allocation beyond its limit fails (c10::OutOfMemoryError), as do
/// those of kernels for themselves. Simulated devices are opened with their limits, GPUs have those
/// of hold_gpus(). Returns an empty text, or which device is not held to its limit: training goes
/// on all the same, and a plan's own slots never grow. Requires: nothing in flight.
std::string limit_memory(std::span<const MemoryLimit> limits);

}  // namespace ferry
