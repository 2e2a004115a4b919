#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "base/check.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/doctor_report.h"
#include "cli/examination.h"
#include "data/files.h"
#include "store/swap_file.h"
#include "train/devices.h"
#include "train/measure.h"
#include "train/update_rate.h"

namespace ferry {
namespace {

constexpr Bytes kStatePerParameter = 16_B;  // of AdamW: weight, two moments, gradient

DriveFacts drive_facts(const std::string& folder, Bytes size) {
  const Bytes free = free_space(folder);  // also refuses what is no folder
  struct stat status = {};
  if (stat(folder.c_str(), &status) != 0) throw system_error("cannot look at " + folder, errno);
  return {.folder = std::filesystem::canonical(folder),
          .free = free,
          .major_number = major(status.st_dev),
          .minor_number = minor(status.st_dev),
          .rates = measure_drive(folder, size)};
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

Probes probes_of_this_box(Bytes drive_size) {
  return {
      .cores = cores_by_affinity(),
      .gpus = find_gpus(),
      .memory_bandwidth = dram_bandwidth,
      .update_rate =
          [](Bytes working_set, int threads) {
            return measure_update_rate(Precision::bf16, threads,
                                       working_set.count / kStatePerParameter.count);
          },
      .copies = [](std::span<const std::string> devices) { return measure_copies(devices); },
      .precision = precision_of,
      .drive = [drive_size](const std::string& folder) { return drive_facts(folder, drive_size); },
      .say = [](const std::string& what) { std::fprintf(stderr, "%s\n", what.c_str()); }};
}

Bytes parse_drive_size(const std::string& text) {
  try {
    const Bytes size = parse_bytes(text);
    if (size > 0_B) return size;
  } catch (const UserError& error) {
    throw UserError("--drive-size: " + std::string(error.what()));
  }
  throw UserError("--drive-size: expected a size above 0; found '" + text + "'");
}

void write_machine(const Examination& examination, const std::string& file) {
  const std::string text = examination_yaml(examination);
  FERRY_CHECK(parse_machine(text, file) == examination.machine,
              "what ferry doctor writes reads back equal");
  write_file(file, text);
}

}  // namespace

int run_doctor(const DoctorCommand& command) {
  const std::filesystem::path file = command.machine;
  const std::string name = file.empty() ? "this machine" : file.stem().string();
  const Examination examination =
      examine(probes_of_this_box(parse_drive_size(command.drive_size)), name, command.drives);
  if (!file.empty()) write_machine(examination, command.machine);
  if (command.json) {
    std::fputs(examination_json(examination).c_str(), stdout);
    return kDone;
  }
  std::fputs(examination_table(examination).c_str(), stdout);
  if (file.empty()) {
    std::puts("nothing written; --machine FILE writes a machine file");
  } else {
    std::printf("machine file written to %s\n", file.c_str());
  }
  return kDone;
}

}  // namespace ferry
