#include "simdev/backend.h"

#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <algorithm>
#include <mutex>

#include "simdev/dispatch.h"
#include "simdev/native_ops.h"
#include "simdev/sim_machine.h"
#include "simdev/tensors.h"

namespace ferry {
namespace {

c10::Device sim_device(int index) { return {kSim, static_cast<c10::DeviceIndex>(index)}; }

// --- memory -------------------------------------------------------------------------------------

/// What a DataPtr of a sim device owns. It may outlive the machine it came from.
struct Allocation {
  SimMachine* machine;
  std::shared_ptr<DeviceMemory> memory;  // identifies the opening: never reused while held
  int device;
  MemoryBlock block;
  std::mutex mutex;                  // guards users
  std::vector<c10::StreamId> users;  // other streams that were said to use it
};

void free_allocation(void* context) {
  const std::unique_ptr<Allocation> allocation(static_cast<Allocation*>(context));
  SimMachine* machine = open_sim_machine();
  const bool still_open = machine == allocation->machine && machine != nullptr &&
                          allocation->device < machine->device_count() &&
                          machine->memory(allocation->device) == allocation->memory;
  if (still_open) {
    machine->give_back(allocation->device, allocation->block, allocation->users);
  } else {
    DeviceMemory::release(allocation->block);
  }
}

class SimAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(std::size_t size) override { return allocate_sim(size, current_device()); }

  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }

  void copy_data(void* to, const void* from, std::size_t size) const override {
    SimStream& stream = current_stream(current_device());
    const Bytes bytes{static_cast<std::int64_t>(size)};
    sim_machine().enqueue(stream, "copy_data",
                          {{static_cast<const std::byte*>(from), bytes, false},
                           {static_cast<const std::byte*>(to), bytes, true}},
                          [=] { std::memcpy(to, from, size); });
  }

  bool initialized() override { return open_sim_machine() != nullptr; }

  void emptyCache(c10::MempoolId_t) override {
    SimMachine& machine = sim_machine();
    for (int device = 0; device < machine.device_count(); ++device) {
      machine.give_back_unused(device);
    }
  }

  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    use_on_stream(data, stream);
  }

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    const SimStats sim = sim_machine().stats(device);
    c10::CachingDeviceAllocator::DeviceStats stats;
    auto& allocated = stats.allocated_bytes[0];  // the aggregate of all pools
    allocated.current = sim.live.count;
    allocated.peak = sim.peak.count;
    auto& reserved = stats.reserved_bytes[0];
    reserved.current = (sim.live + sim.unused).count;
    return stats;
  }

  void resetAccumulatedStats(c10::DeviceIndex) override {}

  void resetPeakStats(c10::DeviceIndex device) override { sim_machine().reset_peak(device); }

  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex device) override {
    const auto& memory = sim_machine().memory(device);
    return {static_cast<std::size_t>((memory->cap() - memory->in_use()).count),
            static_cast<std::size_t>(memory->cap().count)};
  }
};

SimAllocator& allocator() {
  static SimAllocator instance;
  return instance;
}

/// Makes a device current for a scope, without torch's guard machinery.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) : before_(current_device()) { set_current_device(device); }
  ~CurrentDevice() { set_current_device(before_); }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  const int before_;
};

// --- devices, streams, events -------------------------------------------------------------------

c10::Stream to_torch(const SimStream& stream) {
  return c10::Stream(c10::Stream::UNSAFE, sim_device(stream.device), stream.id);
}

SimStream& from_torch(const c10::Stream& stream) {
  return sim_machine().stream(stream.device_index(), stream.id());
}

StreamTime time_of(const void* event) {
  TORCH_CHECK(event != nullptr, "an event has a time only after it was recorded");
  const auto time = static_cast<const SimEvent*>(event)->event->time();
  TORCH_CHECK(time.has_value(),
              "device not ready: an event has no time until what it was recorded "
              "behind, perhaps again, is done");
  return *time;
}

class SimGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kSim; }

  c10::Device exchangeDevice(c10::Device device) const override {
    const int before = current_device();
    set_current_device(device.index());
    return sim_device(before);
  }
  c10::Device getDevice() const override { return sim_device(current_device()); }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.index() < deviceCount(), device, " is not open");
    set_current_device(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    set_current_device(device.index());
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    const SimMachine* machine = open_sim_machine();
    return static_cast<c10::DeviceIndex>(machine ? machine->device_count() : 0);
  }

  c10::Stream getStream(c10::Device device) const override {
    const int index = device.index() < 0 ? current_device() : device.index();
    return c10::Stream(c10::Stream::UNSAFE, sim_device(index), current_stream_id(index));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return getNewStream(device, 0);
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return to_torch(sim_machine().new_stream(device.index()));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = getStream(stream.device());
    set_current_stream_id(stream.device_index(), stream.id());
    return before;
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    if (*event == nullptr) *event = new SimEvent;
    sim_machine().record(*static_cast<SimEvent*>(*event), from_torch(stream));
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event) sim_machine().block(*static_cast<SimEvent*>(event), from_torch(stream));
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || sim_machine().query_event(*static_cast<SimEvent*>(event));
  }
  void synchronizeEvent(void* event) const override {
    if (event) sim_machine().wait_event(*static_cast<SimEvent*>(event));
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<SimEvent*>(event);
  }
  // As CUDA: of events that are done, and by a float of milliseconds, whose steps grow with the
  // time between them.
  double elapsedTime(void* from, void* to, const c10::DeviceIndex) const override {
    TORCH_CHECK(sim_machine().tells_time(),
                "the event has no time, as simdev_fail_time() asked for");
    return std::chrono::duration<float, std::milli>(time_of(to) - time_of(from)).count();
  }

  bool queryStream(const c10::Stream& stream) const override {
    return sim_machine().query_stream(from_torch(stream));
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    sim_machine().wait_stream(from_torch(stream));
  }
  void synchronizeDevice(const c10::DeviceIndex device) const override {
    sim_machine().wait_device(device);
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    use_on_stream(data, stream);
  }
};

class SimHooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return deviceCount() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override {
    const SimMachine* machine = open_sim_machine();
    return static_cast<c10::DeviceIndex>(machine ? machine->device_count() : 0);
  }
  void setCurrentDevice(c10::DeviceIndex device) const override { set_current_device(device); }
  c10::DeviceIndex getCurrentDevice() const override {
    return static_cast<c10::DeviceIndex>(current_device());
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    const c10::DeviceIndex before = getCurrentDevice();
    set_current_device(device);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return exchangeDevice(device);
  }
};

void register_once() {
  c10::register_privateuse1_backend("sim");
  static const c10::impl::DeviceGuardImplRegistrar guard(kSim, new SimGuard);
  c10::SetAllocator(kSim, &allocator());
  at::RegisterPrivateUse1HooksInterface(new SimHooks);
  register_native_operators();
  register_fallback();
}

}  // namespace

void register_backend() {
  static std::once_flag registered;
  std::call_once(registered, register_once);
}

at::Tensor empty_sim(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type,
                     int device) {
  const CurrentDevice current(device);
  return at::Tensor(at::detail::empty_strided_generic(
      sizes, strides, &allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), type));
}

at::Tensor empty_sim(at::IntArrayRef sizes, at::ScalarType type, int device,
                     std::optional<at::MemoryFormat> format) {
  const CurrentDevice current(device);
  return at::Tensor(at::detail::empty_generic(
      sizes, &allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), type, format));
}

c10::DataPtr allocate_sim(std::size_t size, int device) {
  SimMachine& machine = sim_machine();
  if (size == 0) return {nullptr, sim_device(device)};  // takes none, as with CUDA
  const MemoryBlock block =
      machine.allocate(current_stream(device), {static_cast<std::int64_t>(size)});
  auto allocation = std::make_unique<Allocation>();
  allocation->machine = &machine;
  allocation->memory = machine.memory(device);
  allocation->device = device;
  allocation->block = block;
  return {block.data, allocation.release(), &free_allocation, sim_device(device)};
}

void use_on_stream(const c10::DataPtr& data, const c10::Stream& stream) {
  auto* allocation = data.cast_context<Allocation>(&free_allocation);
  if (allocation == nullptr || allocation->block.stream == stream.id()) return;
  const std::lock_guard lock(allocation->mutex);
  auto& users = allocation->users;
  if (std::find(users.begin(), users.end(), stream.id()) == users.end()) {
    users.push_back(stream.id());
  }
}

}  // namespace ferry
