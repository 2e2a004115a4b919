#include "device/device.h"

#include <ATen/ATen.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/check.h"
#include "base/error.h"
#include "device/allocator_settings.h"
#include "device/cuda_runtime.h"
#include "device/driver_memory.h"
#include "device/memory_limit.h"
#include "simdev/simdev.h"

namespace ferry {
namespace {

/// "sim:3" -> 3 with prefix "sim:"; -1 when the name is of another form.
int index_after(const std::string& prefix, const std::string& name) {
  int index = -1;
  if (name.rfind(prefix, 0) != 0) return -1;
  const char *begin = name.data() + prefix.size(), *end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(begin, end, index);
  return error == std::errc() && rest == end ? index : -1;
}

/// Empty when the runtime does not say.
std::string address_of_gpu(int index) {
  const auto ask = cuda_function<int(char*, int, int)>("cudaDeviceGetPCIBusId");
  std::array<char, 32> text{};
  if (ask == nullptr || ask(text.data(), static_cast<int>(text.size()), index) != 0) return "";
  std::string address = text.data();  // "0000:3B:00.0"; sysfs writes small letters
  std::ranges::transform(address, address.begin(), [](char c) {
    return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return address;
}

/// torch's CUDA part. Nothing of ours references its library, so that one binary runs with and
/// without it.
class CudaPart {
 public:
  /// Loaded by the first call; made ready for use by each, which a machine without a driver refuses
  /// (c10::Error). Throws ResourceError when the installed torch has none.
  static const CudaPart& get() {
    static const CudaPart part;
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
    return part;
  }

  /// What all programs used of a GPU before this one had a context there; nothing where the driver
  /// does not say.
  std::optional<Bytes> used_before(int index) const {
    const auto found = used_before_.find(address_of_gpu(index));
    return found == used_before_.end() ? std::nullopt : std::optional(found->second);
  }

  std::optional<Bytes> used_now(int index) const {
    return driver_ ? driver_->used(address_of_gpu(index)) : std::nullopt;
  }

  Bytes context(int index) const {
    const auto found = contexts_.find(index);
    return found == contexts_.end() ? Bytes{} : found->second;
  }

 private:
  /// A torch that does not know a setting does without.
  static void set_where_known(const std::string& name, const std::string& value) {
    try {
      set_allocator(name, value);
    } catch (const c10::Error&) {
      // It may keep more than a plan leaves it; a run says where no limit holds.
    }
  }

  CudaPart() {
    if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      throw ResourceError(std::string("the installed torch has no CUDA part: ") + dlerror());
    }
    // cuDNN's attention gave NaN gradients on H100 and H200 from torch 2.11 on
    // (pytorch/pytorch#196678).
    at::globalContext().setSDPUseCuDNN(false);
    // Else free pieces of many sizes would take what a plan leaves for kernels.
    set_where_known("expandable_segments", "True");
    const auto count = cuda_function<int(int*)>("cudaGetDeviceCount");
    int gpus = 0;
    if (!driver_ || count == nullptr || count(&gpus) != 0) return;
    for (int index = 0; index < gpus; ++index) {
      const std::string address = address_of_gpu(index);
      if (const auto used = driver_->used(address)) used_before_[address] = *used;
    }
    if (gpu_share()) limit_allocator(gpus);
  }

  /// By the largest share of hold_gpus(), without the contexts, which are made for that. Where the
  /// runtime refuses, torch will say why.
  void limit_allocator(int gpus) {
    const auto set_device = cuda_function<int(int)>("cudaSetDevice");
    const auto memory_info = cuda_function<int(std::size_t*, std::size_t*)>("cudaMemGetInfo");
    if (set_device == nullptr || memory_info == nullptr) return;
    double part = 0;
    for (int index = 0; index < gpus; ++index) {
      const auto counts = driver_->counts(address_of_gpu(index));
      if (!counts) continue;
      const Bytes used{static_cast<std::int64_t>(counts->used)};
      const Bytes free{static_cast<std::int64_t>(counts->total - counts->used)};
      const std::optional<Bytes> most = gpu_share()(index, free);
      if (!most) continue;
      std::size_t now = 0, total = 0;
      if (set_device(index) != 0 || memory_info(&now, &total) != 0) return;
      contexts_[index] = std::max(used_now(index).value_or(used) - used, 0_B);
      part = std::max(
          part, static_cast<double>((*most - contexts_[index]).count) / static_cast<double>(total));
    }
    // A millionth is 24 KB of 24 GB: rounded up, so that a plan's last bytes are within it.
    if (part > 0) {
      set_where_known("per_process_memory_fraction", std::to_string(std::min(1.0, part + 1e-6)));
    }
  }

  std::optional<DriverMemory> driver_ = DriverMemory::open();
  std::map<std::string, Bytes> used_before_;  // by PCI address
  std::map<int, Bytes> contexts_;             // by index, of GPUs that have a share
};

/// cuBLAS has memory of its own for every stream on which it multiplied, for ever; torch can take
/// it back. Not in the API that all builds of torch share.
void drop_product_memory() {
  const auto clear = cuda_function<void()>("_ZN2at4cuda21clearCublasWorkspacesEv");
  if (clear != nullptr) clear();
}

c10::impl::VirtualGuardImpl guard_of(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type());
}

}  // namespace

Device Device::open(const std::string& name) {
  auto type = c10::DeviceType::PrivateUse1;
  int index = index_after("sim:", name);
  if (index < 0) {
    type = c10::DeviceType::CUDA;
    index = index_after("cuda:", name);
    if (index < 0)
      throw UserError("device '" + name + "': expected sim:K or cuda:K, K = 0, 1, ...");
    try {
      CudaPart::get();
    } catch (const ResourceError& error) {
      throw ResourceError(name + ": " + error.what());
    }
  } else if (c10::impl::device_guard_impl_registry[static_cast<std::size_t>(type)] == nullptr) {
    throw ResourceError(name + ": no simulated devices were opened");
  }
  const int count = c10::impl::VirtualGuardImpl(type).deviceCount();
  if (index >= count) {
    throw ResourceError(name + " is not there: this machine has " + std::to_string(count) +
                        (type == c10::DeviceType::CUDA ? " CUDA" : " simulated") + " devices");
  }
  return Device(name, c10::Device(type, static_cast<c10::DeviceIndex>(index)));
}

std::string Device::pci_address() const {
  const int index = device_.index();
  return simulated() ? simdev_pci_address(index) : address_of_gpu(index);
}

c10::Stream Device::stream(const std::string& purpose) {
  const auto found = streams_.find(purpose);
  if (found != streams_.end()) return found->second;
  const c10::Stream stream = guard_of(device_).getNewStream(device_, 0);
  if (simulated()) simdev_name_stream(stream, purpose);
  return streams_.emplace(purpose, stream).first->second;
}

at::Tensor Device::slab(Bytes size) const {
  FERRY_CHECK(size >= 0_B, "a slab of a negative size");
  drop_product_memory();
  c10::getDeviceAllocator(device_.type())->emptyCache({0, 0});
  at::Tensor slab = at::empty({size.count}, at::TensorOptions(at::kByte).device(device_));
  // A GPU's memory is there; a simulated one's is backed now, so that no step pays for page faults.
  if (simulated()) slab.fill_(0xFF);
  // The memory follows the order of the stream that was current; now it is free of it.
  const auto guard = guard_of(device_);
  guard.synchronizeStream(guard.getStream(device_));
  return slab;
}

void Device::synchronize() const { guard_of(device_).synchronizeDevice(device_.index()); }

Device::MemoryUse Device::memory_use() const {
  const auto stats = c10::getDeviceAllocator(device_.type())->getDeviceStats(device_.index());
  const auto& total = stats.allocated_bytes[0];  // StatType::AGGREGATE
  return {{total.current}, {total.peak}, {stats.reserved_bytes[0].current - total.current}};
}

Bytes Device::beside_tensors() const {
  if (simulated()) return {};
  const CudaPart& cuda = CudaPart::get();
  const auto before = cuda.used_before(device_.index()), now = cuda.used_now(device_.index());
  if (!before || !now) return {};
  const MemoryUse use = memory_use();
  return std::max(*now - *before - use.live - use.kept, 0_B);
}

Bytes Device::context() const {
  return simulated() ? Bytes{} : CudaPart::get().context(device_.index());
}

void Device::attach_thread() const {
  if (simulated()) return;
  if (const auto set = cuda_function<int(int)>("cudaSetDevice")) set(device_.index());
}

void Device::reset_peak() const {
  c10::getDeviceAllocator(device_.type())->resetPeakStats(device_.index());
}

std::vector<PresentGpu> present_gpus() {
  std::vector<PresentGpu> found;
  const CudaPart* cuda = nullptr;
  try {
    cuda = &CudaPart::get();
  } catch (const ResourceError&) {
    return found;
  } catch (const c10::Error&) {
    return found;  // built for CUDA, but there is no driver
  }
  const c10::impl::VirtualGuardImpl guard(c10::DeviceType::CUDA);
  for (int index = 0; index < guard.deviceCount(); ++index) {
    const auto [free, total] = c10::getDeviceAllocator(c10::DeviceType::CUDA)
                                   ->getMemoryInfo(static_cast<c10::DeviceIndex>(index));
    const auto others = cuda->used_before(index);
    found.push_back({index,
                     others ? Bytes{static_cast<std::int64_t>(total)} - *others
                            : Bytes{static_cast<std::int64_t>(free)},
                     address_of_gpu(index)});
  }
  return found;
}

std::optional<bool> has_peer_access(int index, int other) {
  const auto ask = cuda_function<int(int*, int, int)>("cudaDeviceCanAccessPeer");
  int can = 0;
  if (ask == nullptr || ask(&can, index, other) != 0) return std::nullopt;
  return can != 0;
}

std::optional<int> compute_capability(int index) {
  constexpr int kCapabilityMajor = 75;  // cudaDevAttrComputeCapabilityMajor
  const auto attribute = cuda_function<int(int*, int, int)>("cudaDeviceGetAttribute");
  int major = 0;
  if (attribute == nullptr || attribute(&major, kCapabilityMajor, index) != 0) return std::nullopt;
  return major;
}

}  // namespace ferry
