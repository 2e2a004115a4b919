#include "papers/timing/program_questions.h"

#include <utility>

namespace ferry {

Profile equal_profile(int blocks, double forward, double backward) {
  Profile profile;
  profile.name = "equal";
  BlockProfile block;
  block.key = "block";
  block.forward = {forward};
  block.backward = {backward};
  profile.blocks = {block};
  profile.chain.assign(static_cast<std::size_t>(blocks), 0);
  return profile;
}

PlanQuestion pure_question(const std::string& strategy, int devices, int micro_batches,
                           Profile profile) {
  PlanQuestion question;
  question.machine.name = "sample";
  question.machine.host.cores = 8;
  question.machine.host.memory = 64_GiB;
  for (int d = 0; d < devices; ++d) {
    MachineDevice device;
    device.name = "gpu" + std::to_string(d);
    device.kind = DeviceKind::cuda;
    device.index = d;
    device.memory = 1_GiB;
    device.up = device.down = {1e6};
    question.machine.devices.push_back(device);
  }
  question.profile = std::move(profile);
  question.micro_batches = micro_batches;
  question.strategy = strategy;
  question.papers.pure = true;
  question.host_budget = 64_GiB;
  return question;
}

}  // namespace ferry
