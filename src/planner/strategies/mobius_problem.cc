#include "planner/strategies/mobius_problem.h"

#include <algorithm>
#include <limits>

#include "planner/costs/queues.h"
#include "planner/write/allocate.h"
#include "planner/write/stream_schedule.h"

namespace ferry {
namespace {

double bytes_per_micro(double bytes_per_second) { return bytes_per_second * 1e-6; }

double slot_bytes(Bytes bytes) { return static_cast<double>(slot_size(bytes).count); }

}  // namespace

BlockCosts costs_of(const PlanQuestion& question, const Chain& chain, int b) {
  const bool train = question.mode == PlanMode::train;
  const ChainBlock& block = chain.blocks[b];
  const ChainBlock& owner = chain.blocks[weight_owner(chain, b)];
  BlockCosts costs;
  if (has_forward(block)) {
    costs.forward_time = block.forward.count;
    costs.forward_upload = costs.forward_memory = slot_bytes(owner.weights);
  }
  costs.activation = static_cast<double>(chain.activation.count);
  if (!train) return costs;
  const bool tied_embedding = b == 0 && chain.blocks.back().reads_weight == 0;
  const double tied_sum = tied_embedding ? slot_bytes(chain.blocks.back().gradients) : 0.0;
  costs.backward_time = block.backward.count;
  costs.backward_upload = (b > 0 ? slot_bytes(owner.weights) : 0.0) + tied_sum;
  costs.backward_memory =
      costs.backward_upload + slot_bytes(block.gradients) + slot_bytes(block.rounded);
  costs.activation_gradient = static_cast<double>(chain.activation.count);
  costs.gradient_download = slot_bytes(landing_sum(block));
  costs.update_time = block.trainable ? block.host_update.count : 0.0;
  return costs;
}

EvaluatorProblem problem_of(const PlanQuestion& question, const Chain& chain) {
  const bool train = question.mode == PlanMode::train;
  const int devices = static_cast<int>(question.machine.devices.size());
  Bytes workspace;
  for (const ChainBlock& block : chain.blocks) {
    workspace = std::max(workspace, block.forward_workspace);
    if (train) workspace = std::max(workspace, block.backward_workspace);
  }
  double rate = std::numeric_limits<double>::infinity();
  for (int d = 0; d < devices; ++d) rate = std::min(rate, upload_rate(question, d));
  const Bytes rings = slot_size(chain.activation) * (kLeastActivationSlots + 1);
  EvaluatorProblem problem;
  problem.devices = devices;
  problem.micro_batches = question.micro_batches;
  problem.memory = static_cast<double>(
      (device_limit(question, least_device(question)) - workspace - rings).count);
  problem.bandwidth = bytes_per_micro(rate);
  problem.switches.first_loads = true;
  problem.switches.gradient_downloads = train;
  problem.switches.updates = train;
  problem.switches.updates_wait_for_all = sums_wait(question);
  problem.switches.stage_overhead =
      question.profile.copy_overhead.count + question.machine.devices.front().latency.count;
  return problem;
}

}  // namespace ferry
