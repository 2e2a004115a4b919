// Tensors of a sim device seen by other back ends: as CPU tensors over the same bytes, as shapes.
// Internal to simdev/.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <functional>

#include "simdev/hazards.h"

namespace ferry {

/// PrivateUse1, which torch prints as "sim" once a device was opened.
constexpr c10::DeviceType kSim = c10::DeviceType::PrivateUse1;

bool is_sim(const at::Tensor& tensor);

/// A CPU tensor over the same bytes, not owning them. Other tensors are returned as they are.
at::Tensor cpu_alias(const at::Tensor& tensor);

/// A tensor without bytes of the same shape, strides and dtype. Other tensors are returned as is.
at::Tensor meta_twin(const at::Tensor& tensor);

/// An uninitialised tensor on sim:`device` of `shape`'s sizes, strides and dtype.
at::Tensor empty_sim_like(const at::Tensor& shape, int device);

/// From the first to the last byte that the tensor's elements occupy; empty without elements.
AccessedRange range_of(const at::Tensor& tensor, bool write);

/// Calls `visit` for every defined tensor in an argument (a tensor, or a list of them).
void for_each_tensor(const c10::IValue& value, const std::function<void(const at::Tensor&)>& visit);

/// The argument with `convert` applied to its tensors and sim devices replaced by `device`.
c10::IValue map_tensors(const c10::IValue& value, c10::DeviceType device,
                        const std::function<at::Tensor(const at::Tensor&)>& convert);

}  // namespace ferry
