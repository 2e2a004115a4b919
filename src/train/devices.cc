#include "train/devices.h"

#include <ATen/Version.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <utility>

#include "base/error.h"
#include "device/device.h"
#include "device/memory_limit.h"
#include "device/simulation.h"
#include "spec/device_budgets.h"
#include "spec/host_limits.h"
#include "spec/nearest.h"
#include "spec/shared_memory.h"

namespace ferry {
namespace {

// By which people tell the libraries below torch which kernels to take on a processor.
constexpr std::array kKernelChoices = {"MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "MKL_DEBUG_CPU_TYPE",
                                       "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"};

static_assert(kSimReuse <= kReuseOfDevice, "the memory that a run takes beside its plan counts it");

/// oneDNN keeps the kernels of the last 1,024 shapes of a product, and torch's layer above it as
/// many once more, of up to 0.7 MB each: documents of many lengths would fill over a GiB beside the
/// plan. Both are read at their first use. What the user has set stays.
void bound_kernel_caches() {
  for (const auto& [name, shapes] :
       {std::pair{"ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64"}, std::pair{"LRU_CACHE_CAPACITY", "8"}}) {
    setenv(name, shapes, /*overwrite=*/0);
  }
}

/// Collects the pools that throttle copies: a device's own link and its root complex.
class Links {
 public:
  explicit Links(const Machine& machine) : machine_(machine) {
    for (const Root& root : machine.roots) {
      roots_.push_back({add(root.up), add(root.down)});
    }
  }

  std::vector<Draw> draws(const MachineDevice& device, bool up) {
    const Rate own = up ? device.up : device.down;
    const Rate shared = device.root ? rate(machine_.roots[*device.root], up) : Rate{};
    const double speed = own.limited() ? own.bytes_per_second : shared.bytes_per_second;
    std::vector<Draw> found;
    if (own.limited()) found.push_back({add(own), speed});
    if (shared.limited()) {
      const auto& pools = roots_[*device.root];
      found.push_back({up ? pools.first : pools.second, speed});
    }
    return found;
  }

  /// What the device sends to others, or receives from them.
  std::vector<Draw> peers(const MachineDevice& device) {
    if (!device.p2p.limited()) return {};
    return {{add(device.p2p), device.p2p.bytes_per_second}};
  }

  IdVector<PoolId, double> capacities;

 private:
  static Rate rate(const Root& root, bool up) { return up ? root.up : root.down; }

  PoolId add(Rate limit) { return capacities.add(limit.bytes_per_second); }

  const Machine& machine_;
  std::vector<std::pair<PoolId, PoolId>> roots_;  // the pools of each root: up, down
};

bool simulated(const MachineDevice& device) { return device.kind == DeviceKind::sim; }

}  // namespace

OpenDevices::OpenDevices(const Machine& machine, const SimulationChoices& choices) {
  const auto count = std::ranges::count_if(machine.devices, &simulated);
  if (count > 0 && count < std::ssize(machine.devices)) {
    throw UserError("machine '" + machine.name +
                    "' has simulated devices and GPUs: torch trains on one kind in a process"
                    "\n  try: a machine file with one kind of device");
  }
  bound_kernel_caches();
  Links links(machine);
  SimOptions options;
  std::map<int, std::size_t> opened;  // where in the options the accelerator of an index is
  for (std::size_t d = 0; d < machine.devices.size(); ++d) {
    const MachineDevice& device = machine.devices[d];
    if (!simulated(device)) {
      names_.push_back("cuda:" + std::to_string(device.index));
      continue;
    }
    const Bytes memory =
        choices.memory.empty() ? device.memory : std::min(choices.memory.at(d), device.memory);
    const auto [found, is_new] = opened.emplace(device.index, options.devices.size());
    names_.push_back("sim:" + std::to_string(found->second));
    if (is_new) {
      options.devices.push_back({.memory = memory,
                                 .threads = choices.threads > 0 ? choices.threads : device.threads,
                                 .up = links.draws(device, true),
                                 .down = links.draws(device, false),
                                 .latency_micros = device.latency.count,
                                 .peer_out = links.peers(device),
                                 .peer_in = links.peers(device),
                                 .pci_address = choices.pci_address});
    } else {  // a logical device more on it
      options.devices[found->second].memory += memory;
    }
  }
  options.pool_capacities = links.capacities;
  options.poison = choices.poison;
  options.hazards = choices.hazards;
  options.strict = choices.strict;
  options.lockable = choices.lockable;
  options.launch_queue = choices.launch_queue;
  options.queries_order = false;  // the trainer polls events, and relies on waits alone
  simulated_ = static_cast<int>(options.devices.size());
  if (simulated_ > 0) simdev_open(options);
}

OpenDevices::~OpenDevices() {
  if (simulated_ > 0) simdev_close();
}

Bytes OpenDevices::host_memory() const {
  Bytes held;
  for (int device = 0; device < simulated_; ++device) {
    const SimStats stats = simdev_stats(device);
    held += stats.live + stats.unused;
  }
  return held;
}

std::string processors_of(const Machine& machine) {
  std::string cpu = processor_name("/") + ", " + at::get_cpu_capability();
  for (const char* name : kKernelChoices) {
    if (const char* value = std::getenv(name)) cpu += std::string(", ") + name + "=" + value;
  }
  std::vector<std::string> kinds;
  for (const MachineDevice& device : machine.devices) {
    const std::string kind = simulated(device) ? cpu : to_string(device.kind);
    if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(kind);
  }
  return joined(kinds);
}

std::vector<FoundGpu> find_gpus() {
  std::vector<FoundGpu> found;
  for (const PresentGpu& gpu : present_gpus()) {
    found.push_back({gpu.index, gpu.memory, gpu.pci_address});
  }
  return found;
}

void hold_gpus_to(const Job& job, const Machine* machine) {
  if (machine == nullptr) {  // its GPUs are known once they are used
    std::optional<Bytes> most;
    if (job.budget.device && job.budget.device->by_name.empty()) {
      most = job.budget.device->each;
      for (const Bytes size : job.budget.device->in_order) most = std::max(*most, size);
    }
    return hold_gpus([most](int, Bytes free) {
      const Bytes ours = free - left_for_cuda(free);
      return most ? std::min(*most, ours) : ours;
    });
  }
  std::map<int, Bytes> shares;  // logical devices of one GPU have the sum of theirs
  const std::vector<Budget> budgets = device_budgets(job, *machine);
  for (std::size_t d = 0; d < budgets.size(); ++d) {
    const MachineDevice& device = machine->devices[d];
    if (!simulated(device)) shares[device.index] += budgets[d].bytes;
  }
  hold_gpus([shares](int index, Bytes) -> std::optional<Bytes> {
    const auto found = shares.find(index);
    if (found == shares.end()) return std::nullopt;
    return found->second;
  });
}

bool multiplies_bf16(int index) {
  constexpr int kAmpere = 8;
  return compute_capability(index).value_or(kAmpere) >= kAmpere;
}

}  // namespace ferry
