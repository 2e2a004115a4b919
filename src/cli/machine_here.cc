#include "cli/machine_here.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/input_file.h"
#include "cli/doctor_report.h"
#include "data/files.h"
#include "spec/kernel_file.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

std::string key_line(const std::string& key) { return "# " + key + "\n"; }

/// What `file` says of a box with the key; nothing where it is of another, damaged or not there.
std::optional<Machine> kept_machine(const fs::path& file, const std::string& key) {
  try {
    const std::string text = read_file(file.string(), 16_MiB);
    if (!text.starts_with(key_line(key))) return std::nullopt;
    return parse_machine(text, file.string());
  } catch (const UserError&) {
    return std::nullopt;
  } catch (const ResourceError&) {
    return std::nullopt;
  }
}

/// Whether the file is there now.
bool keep(const fs::path& file, const std::string& key, const Examination& examination) {
  try {
    fs::create_directories(file.parent_path());
    write_file(file, key_line(key) + examination_yaml(examination));
    return true;
  } catch (const fs::filesystem_error&) {
    return false;
  } catch (const ResourceError&) {
    return false;
  }
}

void take_rates(const Machine& measured, Machine& machine) {
  machine.host.memory_bandwidth = measured.host.memory_bandwidth;
  machine.host.update_rate = measured.host.update_rate;
  machine.roots = measured.roots;
  for (MachineDevice& device : machine.devices) {
    const auto same = std::ranges::find(measured.devices, device.index, &MachineDevice::index);
    if (same == measured.devices.end()) continue;
    device.up = same->up;
    device.down = same->down;
    device.root = same->root;
  }
}

}  // namespace

std::string box_key(const Probes& probes) {
  std::string key = std::to_string(probes.cores) + " cores";
  const std::string driver = probes.root.string() + "/proc/driver/nvidia/version";
  for (const FoundGpu& gpu : probes.gpus) {
    key += ", cuda:" + std::to_string(gpu.index) + " " + gpu_name(gpu) + " " + gpu.pci_address;
  }
  return key + ", driver " + text_entry(driver, "NVRM version");
}

Machine with_rates_of_box(Machine machine, const Probes& probes, const fs::path& file,
                          PhaseListener& listener) {
  if (probes.gpus.empty()) return machine;
  const std::string key = box_key(probes);
  if (const auto kept = kept_machine(file, key)) {
    take_rates(*kept, machine);
    listener.phase("rates of this box: as measured before, " + file.string());
    return machine;
  }
  const Examination examination = examine(probes, machine.name, {});
  for (const std::string& warning : examination.warnings) listener.phase("warning: " + warning);
  take_rates(examination.machine, machine);
  const bool is_kept = keep(file, key, examination);
  listener.phase("rates of this box: measured, " +
                 (is_kept ? "kept in " + file.string() : "not kept: no cache can be written"));
  return machine;
}

}  // namespace ferry
