#include "device/driver_memory.h"

#include <array>

#include "base/error.h"
#include "device/shared_library.h"

namespace ferry {

std::optional<DriverMemory> DriverMemory::open() {
  try {
    const std::array<std::string, 1> names = {"libnvidia-ml.so.1"};
    const SharedLibrary library = SharedLibrary::load(names);
    DriverMemory memory{};
    library.find("nvmlInit_v2", memory.init);
    library.find("nvmlDeviceGetHandleByPciBusId_v2", memory.device_by_address);
    library.find("nvmlDeviceGetMemoryInfo", memory.memory_info);
    if (memory.init() != 0) return std::nullopt;
    return memory;
  } catch (const ResourceError&) {
    return std::nullopt;
  }
}

std::optional<DriverMemory::Counts> DriverMemory::counts(const std::string& pci_address) const {
  void* device = nullptr;
  Counts counts{};
  if (device_by_address(pci_address.c_str(), &device) != 0) return std::nullopt;
  if (memory_info(device, &counts) != 0) return std::nullopt;
  return counts;
}

std::optional<Bytes> DriverMemory::used(const std::string& pci_address) const {
  const auto found = counts(pci_address);
  return found ? std::optional(Bytes{static_cast<std::int64_t>(found->used)}) : std::nullopt;
}

}  // namespace ferry
