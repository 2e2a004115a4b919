#include "cli/rehearsal_question.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "spec/pass_names.h"

namespace ferry {

Machine without_links(Machine machine) {
  for (MachineDevice& device : machine.devices) {
    device.up = device.down = device.p2p = {};
    device.latency = {};
    device.root.reset();
  }
  machine.roots.clear();
  machine.drives.clear();
  return machine;
}

PlanQuestion rehearsal_question(const PlanQuestion& question,
                                const std::vector<std::size_t>& devices) {
  constexpr std::int64_t kLayersOfEach = 2;
  constexpr int kMostMicroBatches = 8;
  PlanQuestion few = question;
  few.model.layers = std::min(few.model.layers, kLayersOfEach * std::ssize(devices));
  build_blocks(few.model);
  few.machine = without_links(question.machine);
  const std::vector<MachineDevice> all = std::exchange(few.machine.devices, {});
  few.device_budgets.clear();
  for (const std::size_t d : devices) {
    few.machine.devices.push_back(all[d]);
    few.device_budgets.push_back(device_budget(question, static_cast<int>(d)));
  }
  few.micro_batches = std::min(few.micro_batches, kMostMicroBatches);
  few.strategy = "mobius";
  few.evaluates = false;
  few.options = {};
  for (const char* pass : pass_name::kAll) few.options.without += std::string(pass) + ",";
  return few;
}

}  // namespace ferry
