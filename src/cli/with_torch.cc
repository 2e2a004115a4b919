#include <filesystem>

#include "cli/torch_part.h"
#include "data/files.h"
#include "train/devices.h"
#include "train/measure.h"

namespace ferry {
namespace {

/// Names everything that a measurement depends on; a measured profile carries it as its name.
std::string measurement_key(const Question& question) {
  const Job& job = question.job;
  const MachineDevice& device = question.plan.machine.devices.front();
  std::string key =
      "measured with saved, torch " + torch_version() + " " + to_string(device.kind) + " threads " +
      std::to_string(job.threads > 0 ? job.threads : device.threads) + " cores " +
      std::to_string(question.plan.machine.host.cores) + " " + to_string(job.train.precision) +
      " " + std::to_string(job.train.micro_batch_size) + "x" + std::to_string(job.data.sequence);
  for (const BlockSpec& block : question.plan.model.blocks) {
    const std::string block_key = similarity_key(question.plan.model, block);
    if (block.layer <= 0) key += " " + block_key;
  }
  return key;
}

}  // namespace

std::vector<FoundGpu> gpus_here() { return find_gpus(); }

Profile measured_profile(const Question& question, PhaseListener& listener) {
  const std::filesystem::path kept = std::filesystem::path(question.job.out) / "profile.yaml";
  const std::string key = measurement_key(question);
  if (std::filesystem::exists(kept)) {
    Profile profile = read_profile(kept.string());
    const auto blocks = question.plan.model.blocks.size();
    if (profile.name == key && profile.chain.size() == blocks) return profile;
  }
  listener.phase("measuring the model's blocks");
  const OpenDevices devices(question.plan.machine, {.threads = question.job.threads});
  Profile profile = measure_profile({.model = question.plan.model,
                                     .micro_batch_size = question.job.train.micro_batch_size,
                                     .sequence = question.job.data.sequence,
                                     .precision = question.job.train.precision,
                                     .device = devices.names().front(),
                                     .update_threads = question.plan.machine.host.cores});
  profile.name = key;
  std::filesystem::create_directories(kept.parent_path());
  write_file(kept, to_yaml(profile));
  return profile;
}

}  // namespace ferry
