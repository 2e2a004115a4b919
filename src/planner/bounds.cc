#include "planner/bounds.h"

#include <algorithm>

#include "planner/queues.h"

namespace ferry {
namespace {

struct Work {
  Micros chain;    // one micro-batch through all blocks, forward and backward
  Micros updates;  // of all blocks
  Bytes weights;   // that go up at least once per step
  Bytes sums;      // that come down
};

Work work_of(const PlanQuestion& question, const Chain& chain, bool on_device) {
  Work work;
  for (const ChainBlock& block : chain.blocks) {
    if (has_forward(block)) work.chain += block.forward;
    if (question.mode != PlanMode::train) continue;
    work.chain += block.backward;
    if (!block.trainable) continue;
    work.updates += on_device ? block.device_update : block.host_update;
    work.weights += block.weights;
    work.sums += block.gradients;
  }
  return work;
}

Micros transfer(Bytes bytes, double rate) {
  return from_seconds(static_cast<double>(bytes.count) / rate);
}

// The rate of all links of one direction together, root complexes included.
double joint_rate(const PlanQuestion& question, bool up) {
  double joint = 0;
  for (std::size_t d = 0; d < question.machine.devices.size(); ++d) {
    const int device = static_cast<int>(d);
    joint += up ? upload_rate(question, device) : download_rate(question, device);
  }
  return joint;
}

double roots_rate(const PlanQuestion& question, bool up) {
  double joint = 0;
  const Machine& machine = question.machine;
  for (std::size_t d = 0; d < machine.devices.size(); ++d) {
    const int device = static_cast<int>(d);
    const auto& root = machine.devices[d].root;
    const Rate rate = root ? (up ? machine.roots[static_cast<std::size_t>(*root)].up
                                 : machine.roots[static_cast<std::size_t>(*root)].down)
                           : Rate{};
    if (!rate.limited()) {
      joint += up ? upload_rate(question, device) : download_rate(question, device);
    }
  }
  for (std::size_t r = 0; r < machine.roots.size(); ++r) {
    const bool used = std::any_of(
        machine.devices.begin(), machine.devices.end(),
        [&](const MachineDevice& device) { return device.root == static_cast<int>(r); });
    if (used) joint += (up ? machine.roots[r].up : machine.roots[r].down).bytes_per_second;
  }
  return joint;
}

// What every device's task takes of the host's cores at least; 0 where one of them is a GPU.
double fewest_cores(const PlanQuestion& question) {
  double fewest = compute_cores(question, 0);
  for (std::size_t d = 1; d < question.machine.devices.size(); ++d) {
    fewest = std::min(fewest, compute_cores(question, static_cast<int>(d)));
  }
  return fewest;
}

}  // namespace

Micros resident_lower_bound(const PlanQuestion& question, const Chain& chain) {
  const Work work = work_of(question, chain, true);
  return work.chain * question.micro_batches + work.updates;
}

Micros pipeline_lower_bound(const PlanQuestion& question, const Chain& chain) {
  const bool train = question.mode == PlanMode::train;
  const Work work = work_of(question, chain, true);
  const Micros all = work.chain * question.micro_batches + work.updates;
  const int devices = static_cast<int>(question.machine.devices.size());
  Micros bound = all * (1.0 / devices);
  const double cores = std::max(1, question.machine.host.cores);
  bound = std::max(bound, all * (fewest_cores(question) / cores));
  for (const ChainBlock& block : chain.blocks) {
    Micros own;
    if (has_forward(block)) own += block.forward * question.micro_batches;
    if (train) own += block.backward * question.micro_batches;
    if (train && block.trainable) own += block.device_update;
    bound = std::max(bound, own);
  }
  if (!train) return bound;
  // The next step's first forward waits for the first block's update, which waits for the sum over
  // all micro-batches, which the first of them joins after a whole chain.
  const ChainBlock& first = chain.blocks.front();
  const Micros joined = first.backward * (question.micro_batches - 1);
  return std::max(bound, work.chain + joined + first.device_update);
}

Micros mobius_lower_bound(const PlanQuestion& question, const Chain& chain) {
  const Work work = work_of(question, chain, false);
  const Micros compute = work.chain * question.micro_batches;
  const int devices = static_cast<int>(question.machine.devices.size());
  const double cores = std::max(1, question.machine.host.cores);

  Micros bound = compute * (1.0 / devices);
  bound = std::max(bound, compute * (fewest_cores(question) / cores) + work.updates);
  if (question.mode != PlanMode::train) return bound;

  // The next step's first forward waits for the embedding's update, which waits for its gradient.
  bound = std::max(bound, work.chain);
  for (const bool up : {true, false}) {
    const Bytes moved = up ? work.weights : work.sums;
    bound = std::max(bound, transfer(moved, joint_rate(question, up)));
    bound = std::max(bound, transfer(moved, std::max(1.0, roots_rate(question, up))));
  }
  return bound;
}

}  // namespace ferry
