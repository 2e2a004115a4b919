// One accelerator, whatever its make, through torch's generic stream, event and allocator API:
// "cuda:0" where there is a GPU, "sim:0" where there is none (simulation.h).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace ferry {

/// Movable. Its streams belong to torch and may be used after it; a slab lives as any tensor does.
class Device {
 public:
  /// Opens "sim:k" or "cuda:k". Throws UserError when the name is neither, ResourceError when this
  /// machine or this torch has no such device. The first cuda device loads torch's CUDA part.
  static Device open(const std::string& name);

  const std::string& name() const { return name_; }
  c10::Device torch_device() const { return device_; }
  bool simulated() const { return device_.type() == c10::DeviceType::PrivateUse1; }

  /// Where it hangs, "0000:3b:00.0" as in sysfs; empty: unknown.
  std::string pci_address() const;

  /// The stream of that purpose ("compute", "load", ...), created by the first call and the same
  /// ever after. One thread at a time.
  c10::Stream stream(const std::string& purpose);

  /// Memory for a plan's slots, taken at once; contents are undefined. What torch keeps of tensors
  /// that are gone and for products on streams, of measurements say, goes back to the device first:
  /// it would count against the budget beside the slab. Returns when every stream may use it.
  /// Throws c10::OutOfMemoryError when it does not fit.
  at::Tensor slab(Bytes size) const;

  /// Returns when all streams of the device are idle; throws what failed on them.
  void synchronize() const;

  /// What torch's allocator has handed out on this device, in this process.
  struct MemoryUse {
    Bytes live;
    Bytes peak;  // since the start or reset_peak()
    Bytes kept;  // of tensors that are gone, for others
  };
  MemoryUse memory_use() const;
  void reset_peak() const;

  /// What this process holds of the device beside that and what is kept: its context, kernels' code
  /// that was loaded so far. By the driver's count; 0 where that does not say, and on sim.
  Bytes beside_tensors() const;

  /// Of that what the context took when it was made, before any kernel was loaded; 0 where
  /// hold_gpus() (memory_limit.h) names no share of it, and on sim.
  Bytes context() const;

  /// Makes the device the calling thread's own, as some of CUDA's libraries want it before their
  /// first call on a thread. Nothing on sim.
  void attach_thread() const;

 private:
  Device(std::string name, c10::Device device) : name_(std::move(name)), device_(device) {}

  std::string name_;
  c10::Device device_;
  std::map<std::string, c10::Stream> streams_;
};

/// One GPU of this machine.
struct PresentGpu {
  int index = 0;                 // the k of cuda:k
  Bytes memory;                  // free now, or taken by this process
  std::string pci_address = {};  // "0000:3b:00.0"; empty: unknown
};

/// The GPUs that torch can use here; none without a CUDA build of torch or without a driver.
std::vector<PresentGpu> present_gpus();

/// Whether the driver lets GPU cuda:`index` reach the memory of cuda:`other`. Nothing where its
/// runtime does not tell.
std::optional<bool> has_peer_access(int index, int other);

/// The first part of the compute capability of GPU cuda:`index`, 8 of "8.6". Nothing where its
/// runtime does not tell.
std::optional<int> compute_capability(int index);

}  // namespace ferry
