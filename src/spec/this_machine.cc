#include <algorithm>

#include "spec/host_limits.h"
#include "spec/kernel_file.h"
#include "spec/machine.h"

namespace ferry {

Machine this_machine(const std::vector<FoundGpu>& gpus) {
  return this_machine(host_limits("/", cores_by_affinity()), gpus);
}

std::string gpu_name(const FoundGpu& gpu) {
  return text_entry("/proc/driver/nvidia/gpus/" + gpu.pci_address + "/information", "Model");
}

int simulated_devices(const Machine& machine) {
  return static_cast<int>(
      std::ranges::count(machine.devices, DeviceKind::sim, &MachineDevice::kind));
}

Machine this_machine(const HostLimits& limits, const std::vector<FoundGpu>& gpus) {
  Machine machine{.name = "this machine", .source = {"this machine"}};
  machine.host.cores = limits.cores;
  // Whole MiB, at least one: what is free changes by the second, and nobody reads the last digits.
  machine.host.memory = std::max(limits.memory.count >> 20, std::int64_t{1}) * 1_MiB;
  machine.host.shared = true;
  machine.host.origin.text = "this machine";
  for (const FoundGpu& gpu : gpus) {
    machine.devices.push_back({.name = "gpu" + std::to_string(machine.devices.size()),
                               .kind = DeviceKind::cuda,
                               .index = gpu.index,
                               .memory = gpu.memory,
                               .origin = {"this machine"}});
  }
  if (machine.devices.empty()) {
    machine.devices.push_back({.name = "gpu0",
                               .kind = DeviceKind::sim,
                               .memory = machine.host.memory,
                               .threads = limits.cores,
                               .origin = {"this machine"}});
  }
  return machine;
}

}  // namespace ferry
