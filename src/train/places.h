// The memory behind a plan's places, taken once at start: a slab per device, a registered slab for
// the host, unnamed files on drives. A training plan and an evaluation plan share it; only one of
// them runs at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/host_registration.h"
#include "device/memory_share.h"
#include "model/positions.h"
#include "plan/plan.h"
#include "spec/machine.h"
#include "spec/model_spec.h"
#include "store/drive_space.h"
#include "store/host_slab.h"
#include "store/mapping.h"
#include "train/step_kernels.h"

namespace ferry {

/// One place's memory. A device place has `device` and `slab`, the host place `host`, the drives'
/// place `drive`.
struct PlaceMemory {
  std::string name;
  std::optional<Device> device;
  at::Tensor slab;                       // bytes on the device; undefined elsewhere
  std::unique_ptr<MemoryShare> share;    // of a device on an accelerator with others
  std::unique_ptr<StepKernels> kernels;  // of a device; null: by torch's operations
  RotaryTable rotary;                    // of a device: Binding::rotary()
  std::unique_ptr<HostSlab> host;
  std::optional<HostRegistration> registration;  // of the host; none: pages cannot be locked
  std::unique_ptr<DriveSpace> drive;
  std::unique_ptr<Mapping> pages;  // of a drives' place: between it and what is not of the plan

  /// Calls `work`, which may take memory of the device beside the slab: it counts as this place's.
  /// Threads: one at a time per accelerator.
  template <typename Work>
  void on_account(const Work& work) {
    if (share) return share->count(work);
    work();
  }
};

/// How the box is reached; tests reach others.
struct BoxAccess {
  EngineFactory engine = {};                     // of drives; none: files in their folders
  std::chrono::milliseconds time_limit{60'000};  // for a drive to answer
  std::filesystem::path root = "/";              // of sys
};

class Places {
 public:
  /// Takes for every place of `plans` the largest slots_end() among them, in whole pages.
  /// `device_names[i]` opens the device of the i-th device place ("sim:0", "cuda:1"); the drives'
  /// place is striped over the machine's drives. Kernels of ours are kept in `kernel_file`.
  /// The host's memory lies on the NUMA nodes that the devices hang next to, where that makes a
  /// difference. Requires: all plans have equal places. The listener hears how much of DRAM is
  /// taken and page-locked, and on which nodes. Throws ResourceError when the machine refuses
  /// memory or space, UserError for a plan on drives that the machine has not.
  Places(std::span<const Plan* const> plans, std::span<const std::string> device_names,
         const Machine& machine, PhaseListener& listener = nobody(), const BoxAccess& access = {},
         const KernelFile& kernel_file = {});
  ~Places();
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;

  PlaceMemory& operator[](PlaceId id) { return places_[id]; }
  IdRange<PlaceId> ids() const { return places_.ids(); }

  /// The most that a device place held, of torch's allocator for its slab and its tasks, and of the
  /// driver beside that. Several logical devices on one accelerator have equal parts of the latter.
  /// Requires: the place is a device's. From any thread.
  Bytes device_peak(PlaceId id) const;

 private:
  void take_host(int threads, PhaseListener& listener, const std::filesystem::path& root);
  void register_host(PhaseListener& listener);

  IdVector<PlaceId, PlaceMemory> places_;
};

/// The instances of one plan as tensors and spans over Places. Lifetime: must not outlive `places`.
class Binding {
 public:
  Binding(const Plan& plan, Places& places);

  /// All bytes of an instance, where it lives: a byte tensor. Requires: its place is no drive.
  const at::Tensor& bytes(InstanceId id) const { return bytes_[id]; }

  /// Part of an instance: `sizes` elements of `type` from byte `offset` on. No copy.
  at::Tensor view(InstanceId id, Bytes offset, at::IntArrayRef sizes, at::ScalarType type) const;

  /// The bytes of an instance in DRAM. Requires: its place is the host.
  std::span<std::byte> host(InstanceId id) const;

  bool on_host(InstanceId id) const;
  bool on_drive(InstanceId id) const;

  /// rotary_table() for the plan's rows on the device of `place`, made by the first call for all
  /// plans there: rotary_bytes() beside its slots. Undefined for a model without one.
  RotaryTable rotary(const ModelSpec& model, PlaceId place) const;

  /// Those of the device where the instance lives; null where there are none.
  const StepKernels* kernels(InstanceId id) const;

  /// Both ends of a copy between DRAM and drives, which moves whole pages (kDrivePage).
  struct Transfer {
    DriveSpace* drive = nullptr;
    Bytes offset;                // in the drives' space
    std::span<std::byte> pages;  // in DRAM
    bool writes = false;         // to the drives
  };
  /// Requires: `task` is such a copy, in a plan that verify() has seen.
  Transfer transfer(const Task& task) const;

  /// Copies a part of an instance, wherever it lives, to DRAM beside the plan or from there. Only
  /// while nothing is in flight. Throws ResourceError when a drive fails. Threads: one at a time;
  /// of what is in DRAM any, for parts of their own.
  void read(InstanceId id, Bytes offset, std::span<std::byte> to) const;
  void write(InstanceId id, Bytes offset, std::span<const std::byte> from) const;
  void clear(InstanceId id, Bytes offset, Bytes size) const;  // to zero

  /// Tells the hazard detector what the slot's bytes are called from now on; slots share bytes.
  void name_slot(InstanceId id) const;

 private:
  /// Of an instance on drives: what passes through the buffer of its place at once.
  struct Stretch {
    DriveSpace& drive;
    Bytes offset;                // in the drives' space
    std::span<std::byte> pages;  // the buffer, in whole pages
    std::span<std::byte> bytes;  // those of the pages that are asked for
    Bytes begin;                 // of them, in what is asked for
  };
  /// Visits all stretches of [offset, offset + size) of an instance on drives, in ascending order.
  template <typename Visit>
  void for_each_stretch(InstanceId id, Bytes offset, Bytes size, const Visit& visit) const;

  const Plan& plan_;
  Places& places_;
  IdVector<InstanceId, at::Tensor> bytes_;  // undefined on drives
  const IdVector<InstanceId, std::string> names_;
};

}  // namespace ferry
