#include "planner/costs/bounds.h"

#include <algorithm>
#include <limits>

#include "planner/costs/capacity_bound.h"
#include "planner/costs/queues.h"
#include "planner/costs/step_order.h"

namespace ferry {
namespace {

struct Work {
  Micros chain;    // one micro-batch through all blocks, forward and backward
  Micros updates;  // of all blocks
};

Work work_of(const PlanQuestion& question, const Chain& chain, bool on_device,
             const AgainFrom& again = kOnce) {
  Work work;
  for (const BlockId b : chain.blocks.ids()) {
    const ChainBlock& block = chain.blocks[b];
    if (has_forward(block)) work.chain += block.forward;
    if (question.mode != PlanMode::train) continue;
    work.chain += least_backwards(chain, b, again);
    if (block.trainable) work.updates += on_device ? block.device_update : block.host_update;
  }
  return work;
}

constexpr int kParts = 64;  // of the blocks from which on backwards may run again

// The least cores that a device's task takes.
double fewest_cores(const PlanQuestion& question) {
  double fewest = compute_cores(question, 0);
  for (int d = 1; d < static_cast<int>(question.machine.devices.size()); ++d) {
    fewest = std::min(fewest, compute_cores(question, d));
  }
  return fewest;
}

// Of the plans that run backwards again from one of these blocks on.
Micros bound_of_some(const PlanQuestion& question, const Chain& chain, const AgainFrom& again) {
  const Work work = work_of(question, chain, false, again);
  const Micros compute = work.chain * question.micro_batches;
  const int devices = static_cast<int>(question.machine.devices.size());
  const double share = fewest_cores(question) / std::max(1, question.machine.host.cores);
  Micros bound = compute * (1.0 / devices);
  if (question.mode != PlanMode::train) return std::max(bound, compute * share);

  Micros updates;  // on the cores, wherever they run
  for (const ChainBlock& block : chain.blocks) {
    if (block.trainable) updates += std::min(block.host_update, block.device_update * share);
  }
  bound = std::max(bound, compute * share + updates);
  // What runs again runs before the first block is renewed, unless that one's sum waits.
  const Work once = work_of(question, chain, false);
  const Micros around = again.most > 0 ? once.chain : work.chain;
  bound = std::max(bound,
                   around + sum_order_delay(question, chain) + renewal_of_first(question, chain));
  return std::max(bound, capacity_bound(question, chain, Homes::anywhere, again));
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
  const double share = fewest_cores(question) / std::max(1, question.machine.host.cores);
  Micros bound = std::max(all * (1.0 / devices), all * share);
  for (const ChainBlock& block : chain.blocks) {  // each on one device
    Micros own;
    if (has_forward(block)) own += block.forward * question.micro_batches;
    if (train) own += least_backward(block) * question.micro_batches;
    if (train && block.trainable) own += block.device_update;
    bound = std::max(bound, own);
  }
  if (!train) return bound;
  const Micros to_first_update = work.chain + sum_order_delay(question, chain);
  return std::max(bound, to_first_update + chain.blocks.front().device_update);
}

Micros streaming_lower_bound(const PlanQuestion& question, const Chain& chain) {
  const Work work = work_of(question, chain, false);
  const Micros compute = work.chain * question.micro_batches;
  const double cores = std::max(1, question.machine.host.cores);
  Micros bound = bound_of_one_way(question, chain);
  bound = std::max(bound, compute * (fewest_cores(question) / cores) + work.updates);
  if (question.mode != PlanMode::train) return bound;
  return std::max(bound, capacity_bound(question, chain, Homes::off_devices));
}

Micros lower_bound(const PlanQuestion& question, const Chain& chain) {
  const Micros bound = bound_of_one_way(question, chain);
  if (!sums_wait(question) || question.mode != PlanMode::train) return bound;
  return std::min(bound, bound_of_one_way(with_norm_first(question), chain));
}

Micros bound_of_one_way(const PlanQuestion& question, const Chain& chain) {
  if (!question.norm_first || question.mode != PlanMode::train) {
    return bound_of_some(question, chain, kOnce);
  }
  Micros least = bound_of_some(question, chain, {0, 0});
  const int others = static_cast<int>(chain.size()) - 1;
  const int parts = std::min(others, kParts);
  for (int i = 0; i < parts; ++i) {
    const AgainFrom part = {1 + others * i / parts, others * (i + 1) / parts};
    least = std::min(least, bound_of_some(question, chain, part));
  }
  return least;
}

}  // namespace ferry
