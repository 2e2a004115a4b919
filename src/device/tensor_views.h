// Tensors over memory that somebody else owns: slots of a device's slab, regions of host memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>

#include "base/units.h"

namespace ferry {

/// The bytes from `offset` of `slab` as a contiguous tensor. Shares the slab's storage, and so
/// keeps it alive. Requires: `slab` is of bytes with one dimension; the range is inside; `offset`
/// is a multiple of the element size.
at::Tensor view(const at::Tensor& slab, Bytes offset, at::IntArrayRef sizes, at::ScalarType type);

/// The start of `bytes` as a contiguous CPU tensor that does not own it: `bytes` must outlive the
/// tensor and every copy that was enqueued with it. Requires: `bytes` is long enough, and aligned
/// to the element size.
at::Tensor host_view(std::span<std::byte> bytes, at::IntArrayRef sizes, at::ScalarType type);

/// What a contiguous tensor of that shape takes. Requires: no size is negative.
Bytes tensor_bytes(at::IntArrayRef sizes, at::ScalarType type);

}  // namespace ferry
