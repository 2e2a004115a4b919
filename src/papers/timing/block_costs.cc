#include "papers/timing/block_costs.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/error.h"

namespace ferry {
namespace {

BlockCosts costs_of(const BlockProfile& block) {
  BlockCosts costs;
  costs.forward_time = block.forward.count;
  costs.backward_time = block.backward.count;
  costs.forward_memory = as_double(block.weights + block.forward_workspace);
  costs.backward_memory = as_double(block.weights + block.gradients + block.backward_workspace);
  costs.forward_upload = as_double(block.weights);
  costs.backward_upload = as_double(block.weights);
  costs.activation = as_double(block.activation);
  costs.activation_gradient = as_double(block.activation_gradient);
  costs.gradient_download = as_double(block.gradients);
  return costs;
}

}  // namespace

std::vector<BlockCosts> profile_costs(const Profile& profile) {
  if (profile.chain.empty()) {
    throw UserError("profile '" + profile.name + "' has no chain of blocks");
  }
  std::vector<BlockCosts> costs;
  for (const int index : profile.chain) {
    costs.push_back(costs_of(profile.blocks[static_cast<std::size_t>(index)]));
  }
  return costs;
}

EvaluatorProblem pure_problem(const PlanQuestion& question) {
  const int devices = static_cast<int>(question.machine.devices.size());
  double rate = std::numeric_limits<double>::infinity();
  for (int d = 0; d < devices; ++d) {
    const MachineDevice& device = question.machine.devices[static_cast<std::size_t>(d)];
    const Rate up = question.profile.up.limited() ? question.profile.up : device.up;
    if (!up.limited()) {
      throw UserError("machine '" + question.machine.name + "': device '" + device.name +
                      "' has no rate 'up', which the pure program needs");
    }
    rate = std::min(rate, up.bytes_per_second);
  }
  EvaluatorProblem problem;
  problem.devices = devices;
  problem.micro_batches = question.micro_batches;
  problem.memory = as_double(device_budget(question, least_device(question)).bytes);
  problem.bandwidth = rate * 1e-6;
  return problem;
}

}  // namespace ferry
