#include <algorithm>

#include "spec/host_limits.h"
#include "spec/kernel_file.h"
#include "spec/machine.h"

namespace ferry {
namespace {

/// At least one: what is free changes by the second, and nobody reads the last digits.
Bytes in_whole_mib(Bytes free) { return std::max(free.count >> 20, std::int64_t{1}) * 1_MiB; }

}  // namespace

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

Bytes left_for_cuda(Bytes free) { return std::min(1_GiB, Bytes{free.count / 16}); }

Machine this_machine(const HostLimits& limits, const std::vector<FoundGpu>& gpus) {
  Machine machine{.name = "this machine", .source = {"this machine"}};
  machine.host.cores = limits.cores;
  machine.host.memory = in_whole_mib(limits.memory);
  machine.host.shared = true;
  machine.host.origin.text = "this machine";
  for (const FoundGpu& gpu : gpus) {
    machine.devices.push_back({.name = "gpu" + std::to_string(machine.devices.size()),
                               .kind = DeviceKind::cuda,
                               .index = gpu.index,
                               .memory = in_whole_mib(gpu.memory - left_for_cuda(gpu.memory)),
                               .copies_in_turn = true,
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
