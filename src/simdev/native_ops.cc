#include "simdev/native_ops.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include <cstring>
#include <optional>
#include <vector>

#include "simdev/backend.h"
#include "simdev/sim_machine.h"
#include "simdev/tensors.h"

namespace ferry {
namespace {

using at::Tensor;

int index_of(std::optional<c10::Device> device) {
  return device && device->has_index() ? device->index() : current_device();
}

Tensor empty_tensor(at::IntArrayRef sizes, std::optional<at::ScalarType> type,
                    std::optional<at::Layout>, std::optional<c10::Device> device,
                    std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return empty_sim(sizes, type.value_or(at::kFloat), index_of(device), format);
}

Tensor empty_strided_tensor(at::IntArrayRef sizes, at::IntArrayRef strides,
                            std::optional<at::ScalarType> type, std::optional<at::Layout>,
                            std::optional<c10::Device> device, std::optional<bool>) {
  return empty_sim(sizes, strides, type.value_or(at::kFloat), index_of(device));
}

// --- copies -------------------------------------------------------------------------------------

int place_of(const Tensor& tensor) { return is_sim(tensor) ? tensor.device().index() : -1; }

std::string place_name(int place) { return place < 0 ? "host" : "sim:" + std::to_string(place); }

/// Copies on this thread alone where the bytes can go as they are. at::copy_ would start a team of
/// threads for every copy stream, which fight with the kernels for the cores.
void copy_bytes(const Tensor& source, Tensor& destination) {
  const bool same_bytes = source.scalar_type() == destination.scalar_type() &&
                          source.sizes() == destination.sizes() && source.is_contiguous() &&
                          destination.is_contiguous();
  if (same_bytes) {
    std::memcpy(destination.data_ptr(), source.data_ptr(), source.nbytes());
  } else {
    destination.copy_(source);
  }
}

void spoil(const Tensor& destination) {
  const AccessedRange range = range_of(destination, true);
  auto* first = const_cast<std::byte*>(range.begin);
  *first ^= std::byte{1};
}

/// Moves the bytes of one copy. With poison it behaves as a slow link would at its worst: the
/// source is read at the start, the destination holds garbage until the end.
void move_over_link(SimMachine& machine, const SimMachine::Copy& copy, const Tensor& source,
                    Tensor destination) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (!machine.options().poison) {
    machine.carry(copy, [&] { copy_bytes(source, destination); });
    return;
  }
  const Tensor staged = source.clone();
  const AccessedRange range = range_of(destination, true);
  if (destination.is_non_overlapping_and_dense()) {
    std::memset(const_cast<std::byte*>(range.begin), 0xFF,
                static_cast<std::size_t>(range.size.count));
  }
  machine.carry(copy, [] {});
  destination.copy_(staged);
}

/// Host memory that dies with a copy may be handed out again at once, to somebody who need not
/// wait for the copy's stream.
void forget_dying(SimMachine& machine, const Tensor& host) {
  if (host.use_count() == 1 && host.storage().use_count() == 1) {
    const c10::Storage& storage = host.storage();
    machine.detector().forget(static_cast<const std::byte*>(storage.data()),
                              {static_cast<std::int64_t>(storage.nbytes())});
  }
}

void enqueue_copy(SimStream& stream, const Tensor& source, const Tensor& destination) {
  SimMachine& machine = sim_machine();
  SimMachine::Copy copy{
      place_of(source), place_of(destination), {static_cast<std::int64_t>(source.nbytes())}};
  const bool over_link = copy.from != copy.to;
  if (over_link) copy.number = machine.count_copy(copy.from, copy.to, copy.size);
  const std::string op =
      over_link ? "copy " + place_name(copy.from) + " to " + place_name(copy.to) : "copy";
  const SimMachine::Ranges ranges = {range_of(source, false), range_of(destination, true)};
  machine.enqueue(
      stream, op, ranges,
      [&machine, copy, over_link, from = cpu_alias(source), to = cpu_alias(destination)]() mutable {
        if (over_link) {
          move_over_link(machine, copy, from, to);
          if (machine.spoils(copy)) spoil(to);
        } else {
          const at::AutoDispatchBelowADInplaceOrView below_autograd;
          to.copy_(from);
        }
        if (machine.options().hazards && copy.from < 0) forget_dying(machine, from);
        if (machine.options().hazards && copy.to < 0) forget_dying(machine, to);
      });
}

/// Between devices both current streams take part, as with CUDA: the copy is on the source's, waits
/// for the destination's, and that waits for the copy.
void enqueue_copy_between(const Tensor& source, const Tensor& destination) {
  SimMachine& machine = sim_machine();
  SimStream& from = current_stream(place_of(source));
  SimStream& to = current_stream(place_of(destination));
  SimEvent destination_ready, copied;
  machine.record(destination_ready, to);
  machine.block(destination_ready, from);
  enqueue_copy(from, source, destination);
  machine.record(copied, from);
  machine.block(copied, to);
}

Tensor copy_from(const Tensor& source, const Tensor& destination, bool non_blocking) {
  if (destination.numel() == 0) return destination;
  const int from = place_of(source), to = place_of(destination);
  if (from >= 0 && to >= 0 && from != to) {
    enqueue_copy_between(source, destination);
    return destination;
  }
  SimStream& stream = current_stream(std::max(from, to));
  enqueue_copy(stream, source, destination);
  if (from == to) return destination;
  const Tensor& host = from < 0 ? source : destination;
  if (!non_blocking || sim_machine().is_pageable(range_of(host, false))) {
    sim_machine().wait_stream(stream);
  }
  return destination;
}

// --- storage ------------------------------------------------------------------------------------

const Tensor& resize_storage(const Tensor& self, at::IntArrayRef sizes,
                             std::optional<at::MemoryFormat>) {
  self.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  const auto need = static_cast<std::size_t>(self.storage_offset() + self.numel()) *
                    static_cast<std::size_t>(self.element_size());
  const c10::Storage& storage = self.storage();
  if (need <= storage.nbytes()) return self;

  const int device = self.device().index();
  c10::DataPtr data = allocate_sim(need, device);
  if (const std::size_t old_size = storage.nbytes(); old_size > 0) {
    const Bytes size{static_cast<std::int64_t>(old_size)};
    const void* from = storage.data();
    void* to = data.get();
    sim_machine().enqueue(current_stream(device), "aten::resize_",
                          {{static_cast<const std::byte*>(from), size, false},
                           {static_cast<const std::byte*>(to), size, true}},
                          [=] { std::memcpy(to, from, old_size); });
  }
  storage.set_data_ptr_noswap(std::move(data));
  storage.set_nbytes(need);
  return self;
}

Tensor copy_from_and_resize(const Tensor& source, const Tensor& destination) {
  if (destination.sizes() != source.sizes())
    resize_storage(destination, source.sizes(), std::nullopt);
  return copy_from(source, destination, false);
}

Tensor& set_storage(Tensor& self, at::Storage storage, std::int64_t offset, at::IntArrayRef sizes,
                    at::IntArrayRef strides) {
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(storage));
  if (strides.size() == sizes.size()) {
    impl->set_sizes_and_strides(sizes, strides, offset);
  } else {
    impl->set_sizes_contiguous(sizes);
    impl->set_storage_offset(offset);
  }
  return self;
}

void record_stream(Tensor& self, c10::Stream stream) {
  use_on_stream(self.storage().data_ptr(), stream);
}

at::Scalar local_scalar(const Tensor& tensor) {
  const int device = tensor.device().index();
  SimMachine& machine = sim_machine();
  machine.count_drain(device, "aten::_local_scalar_dense", "the host asked for a value");
  machine.wait_stream(current_stream(device));
  return cpu_alias(tensor).item();
}

/// The choice between attention kernels that the CPU makes, so that sim devices run the same one.
std::int64_t attention_choice(const Tensor& q, const Tensor& k, const Tensor& v,
                              const std::optional<Tensor>& mask, double dropout, bool causal,
                              std::optional<double> scale, bool grouped) {
  return at::native::_fused_sdp_choice_cpp(q, k, v, mask, dropout, causal, scale, grouped);
}

}  // namespace

void register_native_operators() {
  static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1,
                                __FILE__, __LINE__);
  library.impl("empty.memory_format", TORCH_FN(empty_tensor));
  library.impl("empty_strided", TORCH_FN(empty_strided_tensor));
  library.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  library.impl("view", TORCH_FN(at::native::view));
  library.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  library.impl("unfold", TORCH_FN(at::native::unfold));
  library.impl("resize_", TORCH_FN(resize_storage));
  library.impl("_copy_from", TORCH_FN(copy_from));
  library.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  library.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage));
  library.impl("record_stream", TORCH_FN(record_stream));
  library.impl("_local_scalar_dense", TORCH_FN(local_scalar));
  library.impl("_fused_sdp_choice", TORCH_FN(attention_choice));
  at::native::_fused_sdp_choice_stub.set_privateuse1_dispatch_ptr(&attention_choice);
}

}  // namespace ferry
