#include "cli/box_probes.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/free_space.h"
#include "spec/memory_nodes.h"
#include "train/devices.h"
#include "train/measure.h"
#include "train/update_rate.h"

namespace ferry {
namespace {

constexpr Bytes kStatePerParameter = 16_B;  // of AdamW: weight, two moments, gradient

DriveFacts drive_facts(const std::string& folder, Bytes size) {
  const Bytes free = free_space(folder);  // also refuses what is not there
  struct stat status = {};
  if (stat(folder.c_str(), &status) != 0) throw system_error("cannot look at " + folder, errno);
  return {.folder = std::filesystem::canonical(folder),
          .free = free,
          .major_number = major(status.st_dev),
          .minor_number = minor(status.st_dev),
          .rates = measure_drive(folder, size, cores_by_affinity())};
}

PrecisionChoice precision_of(const MachineDevice& device) {
  if (device.kind == DeviceKind::cuda) return precision_of_gpu(multiplies_bf16(device.index));
  if (auto choice = precision_of_cpu(cpu_capability())) return *choice;
  constexpr std::int64_t kHidden = 2048;
  Machine machine;
  machine.devices.push_back(device);
  const OpenDevices devices(machine, {});
  const ProductRates rates = measure_products(devices.names().front(), kHidden);
  return faster_precision(rates.bf16, rates.fp32);
}

}  // namespace

Probes probes_of_this_box(Bytes drive_size, std::function<void(const std::string&)> say) {
  std::vector<FoundGpu> gpus = find_gpus();
  std::vector<std::string> addresses;
  for (const FoundGpu& gpu : gpus) addresses.push_back(gpu.pci_address);
  return {
      .cores = cores_by_affinity(),
      .gpus = std::move(gpus),
      .memory_bandwidth = dram_bandwidth,
      .update_rate =
          [](Bytes working_set, int threads) {
            return measure_update_rate(Precision::bf16, threads,
                                       working_set.count / kStatePerParameter.count);
          },
      .copies =
          [nodes = nodes_near("/", addresses)](std::span<const std::string> devices) {
            return measure_copies(devices, kCopySize, nodes);
          },
      .peers = [](std::span<const std::string> devices) { return measure_peers(devices); },
      .precision = precision_of,
      .drive = [drive_size](const std::string& folder) { return drive_facts(folder, drive_size); },
      .say = std::move(say)};
}

}  // namespace ferry
