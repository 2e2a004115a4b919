// The memory behind a plan's places, taken once at start: a slab per device, a registered slab for
// the host. A training plan and an evaluation plan share it; only one of them runs at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/host_registration.h"
#include "plan/plan.h"
#include "store/host_slab.h"

namespace ferry {

/// One place's memory. A device place has `device` and `slab`, the host place `host`.
struct PlaceMemory {
  std::string name;
  std::optional<Device> device;
  at::Tensor slab;  // bytes on the device; undefined for the host
  std::unique_ptr<HostSlab> host;
  std::optional<HostRegistration> registration;
};

class Places {
 public:
  /// Takes for every place of `plans` the largest slots_end() among them. `device_names[i]` opens
  /// the device of the i-th device place ("sim:0", "cuda:1"). Requires: all plans have equal
  /// places. The listener hears how much of DRAM is taken and page-locked.
  /// Throws ResourceError when the machine refuses the memory.
  Places(std::span<const Plan* const> plans, std::span<const std::string> device_names,
         int touch_threads, PhaseListener& listener = nobody());

  PlaceMemory& operator[](PlaceId id) { return places_[id]; }
  IdRange<PlaceId> ids() const { return places_.ids(); }

 private:
  IdVector<PlaceId, PlaceMemory> places_;
};

/// The instances of one plan as tensors and spans over Places. Lifetime: must not outlive `places`.
class Binding {
 public:
  Binding(const Plan& plan, Places& places);

  /// All bytes of an instance, where it lives: a byte tensor.
  const at::Tensor& bytes(InstanceId id) const { return bytes_[id]; }

  /// Part of an instance: `sizes` elements of `type` from byte `offset` on. No copy.
  at::Tensor view(InstanceId id, Bytes offset, at::IntArrayRef sizes, at::ScalarType type) const;

  /// The bytes of an instance in DRAM. Requires: its place is the host.
  std::span<std::byte> host(InstanceId id) const;

  bool on_host(InstanceId id) const;

  /// Tells the hazard detector what the slot's bytes are called from now on; slots share bytes.
  void name_slot(InstanceId id) const;

 private:
  const Plan& plan_;
  Places& places_;
  IdVector<InstanceId, at::Tensor> bytes_;
  const IdVector<InstanceId, std::string> names_;
};

}  // namespace ferry
