// The most that torch's allocator may hold of an accelerator, whatever a plan or a kernel asks for.
#pragma once

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

/// Makes allocations beyond the limits fail (c10::OutOfMemoryError), also those of kernels for
/// themselves, and tries that on each device. Simulated devices are opened with their limits; CUDA
/// has them in torch's allocator, as a part of each GPU's memory that is one for all GPUs: the
/// largest that the limits ask for. Returns an empty text, or which device is not held to its
/// limit, and why: training goes on all the same, and a plan's own slots never grow. Requires:
/// limits of accelerators of one kind, nothing in flight. What the user has set by
/// PYTORCH_ALLOC_CONF stays.
std::string limit_memory(std::span<const MemoryLimit> limits);

}  // namespace ferry
