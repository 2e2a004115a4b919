#include "simdev/tensors.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/TensorImpl.h>

#include "simdev/backend.h"
#include "simdev/sim_machine.h"

namespace ferry {
namespace {

/// Numbers in expressions arrive as 0-dim tensors that do not take part in type promotion.
void keep_wrapped_number(const at::Tensor& from, const at::Tensor& to) {
  if (from.unsafeGetTensorImpl()->is_wrapped_number()) {
    to.unsafeGetTensorImpl()->set_wrapped_number(true);
  }
}

}  // namespace

bool is_sim(const at::Tensor& tensor) { return tensor.defined() && tensor.device().type() == kSim; }

at::Tensor cpu_alias(const at::Tensor& tensor) {
  if (!is_sim(tensor)) return tensor;
  const c10::Storage& bytes = tensor.storage();
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes.nbytes(),
                       c10::DataPtr(const_cast<void*>(bytes.data()), c10::Device(c10::kCPU)),
                       /*allocator=*/nullptr, /*resizable=*/false);
  at::Tensor alias = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  alias.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(),
                                                     tensor.storage_offset());
  keep_wrapped_number(tensor, alias);
  return alias;
}

at::Tensor meta_twin(const at::Tensor& tensor) {
  if (!is_sim(tensor)) return tensor;
  at::Tensor twin =
      at::detail::empty_strided_meta(tensor.sizes(), tensor.strides(), tensor.scalar_type());
  keep_wrapped_number(tensor, twin);
  return twin;
}

at::Tensor empty_sim_like(const at::Tensor& shape, int device) {
  return empty_sim(shape.sizes(), shape.strides(), shape.scalar_type(), device);
}

AccessedRange range_of(const at::Tensor& tensor, bool write) {
  if (tensor.numel() == 0) return {};
  std::int64_t last = 0;
  for (std::int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  const auto element = static_cast<std::int64_t>(tensor.element_size());
  const auto* storage = static_cast<const std::byte*>(tensor.storage().data());
  return {storage + tensor.storage_offset() * element, {(last + 1) * element}, write};
}

void for_each_tensor(const c10::IValue& value,
                     const std::function<void(const at::Tensor&)>& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor);
  } else if (value.isOptionalTensorList()) {
    for (const auto& tensor : value.toOptionalTensorVector()) {
      if (tensor && tensor->defined()) visit(*tensor);
    }
  }
}

c10::IValue map_tensors(const c10::IValue& value, c10::DeviceType device,
                        const std::function<at::Tensor(const at::Tensor&)>& convert) {
  if (value.isTensor()) return convert(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(convert(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const auto& tensor : value.toOptionalTensorVector()) {
      list.push_back(tensor ? std::optional(convert(*tensor)) : std::nullopt);
    }
    return list;
  }
  if (value.isDevice() && value.toDevice().type() == kSim) return c10::Device(device);
  return value;
}

}  // namespace ferry
