#include "device/tensor_views.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/check.h"

namespace ferry {

at::Tensor view(const at::Tensor& slab, Bytes offset, at::IntArrayRef sizes, at::ScalarType type) {
  const Bytes size = tensor_bytes(sizes, type);
  FERRY_CHECK(slab.dim() == 1 && slab.scalar_type() == at::kByte,
              "a view of something else than a slab");
  FERRY_CHECK(offset >= 0_B && size.count <= slab.numel() - offset.count,
              "a view of " + to_string(size) + " at offset " + std::to_string(offset.count) +
                  " leaves its slab of " + std::to_string(slab.numel()) + " bytes");
  const auto element = static_cast<std::int64_t>(c10::elementSize(type));
  const std::int64_t first = slab.storage_offset() + offset.count;
  FERRY_CHECK(first % element == 0, "a view at offset " + std::to_string(offset.count) +
                                        " is not aligned to its elements");
  return slab.narrow(0, offset.count, size.count).view(type).view(sizes);
}

at::Tensor host_view(std::span<std::byte> bytes, at::IntArrayRef sizes, at::ScalarType type) {
  const Bytes size = tensor_bytes(sizes, type);
  FERRY_CHECK(size.count <= static_cast<std::int64_t>(bytes.size()),
              "a view of " + to_string(size) + " leaves its " + std::to_string(bytes.size()) +
                  " bytes of host memory");
  FERRY_CHECK(reinterpret_cast<std::uintptr_t>(bytes.data()) % c10::elementSize(type) == 0,
              "a view of host memory is not aligned to its elements");
  return at::from_blob(bytes.data(), sizes, at::TensorOptions(type).device(at::kCPU));
}

Bytes tensor_bytes(at::IntArrayRef sizes, at::ScalarType type) {
  FERRY_CHECK(std::all_of(sizes.begin(), sizes.end(), [](std::int64_t n) { return n >= 0; }),
              "a tensor with a negative size");
  return {c10::multiply_integers(sizes) * static_cast<std::int64_t>(c10::elementSize(type))};
}

}  // namespace ferry
