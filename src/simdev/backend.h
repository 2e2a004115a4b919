// Registration of sim:k with torch: device guard, allocator, hooks. Internal to simdev/.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>

namespace ferry {

/// Registers everything on the first call, for the life of the process.
void register_backend();

/// An uninitialised tensor on sim:`device`, allocated in the order of its current stream.
at::Tensor empty_sim(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type,
                     int device);
at::Tensor empty_sim(at::IntArrayRef sizes, at::ScalarType type, int device,
                     std::optional<at::MemoryFormat> format = std::nullopt);

/// `size` bytes on sim:`device`, allocated in the order of its current stream.
c10::DataPtr allocate_sim(std::size_t size, int device);

/// Keeps the allocation from being reused before `stream` has done what is enqueued on it when
/// the allocation is freed. Ignores memory that is not of a sim device.
void use_on_stream(const c10::DataPtr& data, const c10::Stream& stream);

}  // namespace ferry
