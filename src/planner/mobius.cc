// Strategy `mobius`: contiguous stages pass through the devices, each with the largest prefetch
// that its memory allows; weights, states and gradients are at home on the host, which updates
// them.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <set>
#include <tuple>

#include "planner/allocate.h"
#include "planner/mapping.h"
#include "planner/mobius_plan.h"
#include "planner/partition.h"
#include "planner/queues.h"
#include "planner/strategy.h"

namespace ferry {
namespace {

constexpr int kPartitionsTried = 6;  // the evaluator's best; the simulator chooses among them
constexpr int kRoomyRing = 8;        // slots with which copies no longer wait for slots, as a rule

Bytes least_device_limit(const PlanQuestion& question) {
  Bytes least{std::numeric_limits<std::int64_t>::max()};
  for (int d = 0; d < static_cast<int>(question.machine.devices.size()); ++d) {
    least = std::min(least, device_limit(question, d));
  }
  return least;
}

double bytes_per_micro(double bytes_per_second) { return bytes_per_second * 1e-6; }

double as_double(Bytes bytes) { return static_cast<double>(slot_size(bytes).count); }

BlockCosts costs_of(const PlanQuestion& question, const Chain& chain, int b) {
  const bool train = question.mode == PlanMode::train;
  const ChainBlock& block = chain.blocks[static_cast<std::size_t>(b)];
  const ChainBlock& owner = chain.blocks[static_cast<std::size_t>(weight_owner(chain, b))];
  BlockCosts costs;
  if (has_forward(block)) {
    costs.forward_time = block.forward.count;
    costs.forward_upload = costs.forward_memory = as_double(owner.weights);
  }
  costs.activation = static_cast<double>(chain.activation.count);
  if (!train) return costs;
  const bool tied_embedding = b == 0 && chain.blocks.back().reads_weight == 0;
  const double tied_sum = tied_embedding ? as_double(chain.blocks.back().gradients) : 0.0;
  costs.backward_time = block.backward.count;
  costs.backward_upload = (b > 0 ? as_double(owner.weights) : 0.0) + tied_sum;
  costs.backward_memory = costs.backward_upload + as_double(block.gradients);
  costs.activation_gradient = static_cast<double>(chain.activation.count);
  costs.gradient_download = as_double(block.gradients);
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
  problem.memory = static_cast<double>((least_device_limit(question) - workspace - rings).count);
  problem.bandwidth = bytes_per_micro(rate);
  problem.switches.first_loads = true;
  problem.switches.gradient_downloads = train;
  problem.switches.updates = train;
  problem.switches.updates_wait_for_all = question.clips;
  problem.switches.stage_overhead =
      question.profile.copy_overhead.count + question.machine.devices.front().latency.count;
  return problem;
}

class ShapeSearch {
 public:
  ShapeSearch(const PlanQuestion& question, const Chain& chain)
      : question_(question), chain_(chain), problem_(problem_of(question, chain)) {
    for (const MachineDevice& device : question.machine.devices) roots_.push_back(device.root);
    for (int b = 0; b < static_cast<int>(chain.size()); ++b) {
      blocks_.push_back(costs_of(question, chain, b));
    }
  }

  StrategyAnswer run() {
    // Whether the strategy fits at all is decided by its thriftiest shape alone, so that more
    // memory never hurts: one block per stage, the shortest rings.
    std::vector<int> finest;
    for (int b = 1; b <= static_cast<int>(chain_.size()); ++b) finest.push_back(b);
    if (auto lacking = try_shape(shape_of(finest, kLeastActivationSlots))) return *lacking;

    std::vector<std::vector<int>> partitions = candidates(finest);
    for (const auto& ends : partitions) try_longest_ring(ends, kRoomyRing);
    const std::vector<int> chosen = best_ends_;
    for (const int slots :
         {kLeastActivationSlots + 1, kRoomyRing / 2 + 2, 2 * kRoomyRing, all_activations()}) {
      try_longest_ring(chosen, slots);
    }
    if (question_.clips && question_.mode == PlanMode::train) {
      MobiusShape landed = shape_of(best_ends_, best_slots_);
      landed.updates_as_landed = true;
      try_shape(landed);
    }
    best_->remark = std::to_string(best_ends_.size()) + " stages, " + std::to_string(best_slots_) +
                    " activation slots";
    return std::move(*best_);
  }

 private:
  MobiusShape shape_of(const std::vector<int>& ends, int slots) const {
    MobiusShape shape;
    shape.ends = ends;
    shape.device_of_slot = cross_mapping(roots_, static_cast<int>(ends.size()));
    shape.activation_slots = slots;
    shape.token_slots =
        slots == kLeastActivationSlots ? 1 : std::min(question_.micro_batches, slots);
    return shape;
  }

  int all_activations() const {
    return static_cast<int>(chain_.size()) * question_.micro_batches + kLeastActivationSlots;
  }

  /// Keeps the shape's plan when it fits and is faster than the best; else returns what it lacks.
  std::optional<Shortage> try_shape(const MobiusShape& shape) {
    if (!tried_.insert({shape.ends, shape.activation_slots, shape.updates_as_landed}).second)
      return std::nullopt;
    Plan plan = write_mobius_plan(question_, chain_, shape);
    std::vector<Shortage> lacking = shortages(plan);
    if (!lacking.empty()) return std::move(lacking.front());
    Simulation prediction = simulate(plan);
    if (best_ && prediction.step >= best_->prediction.step) return std::nullopt;
    best_ = StrategyPlan{std::move(plan), std::move(prediction), {}};
    best_ends_ = shape.ends;
    best_slots_ = shape.activation_slots;
    return std::nullopt;
  }

  /// The longest ring up to `slots` that fits beside the partition's visits.
  void try_longest_ring(const std::vector<int>& ends, int slots) {
    slots = std::min(slots, all_activations());
    while (slots >= kLeastActivationSlots) {
      const std::optional<Shortage> lacking = try_shape(shape_of(ends, slots));
      if (!lacking) return;
      const std::int64_t missing = (lacking->need - lacking->have).count;
      const std::int64_t too_many = missing / std::max<std::int64_t>(1, chain_.activation.count);
      if (slots == kLeastActivationSlots) return;
      slots = static_cast<int>(std::max<std::int64_t>(kLeastActivationSlots,
                                                      slots - std::max<std::int64_t>(1, too_many)));
    }
  }

  std::vector<std::vector<int>> candidates(const std::vector<int>& finest) const {
    std::vector<std::vector<int>> result;
    const auto add = [&](const std::vector<int>& ends) {
      if (ends.empty() || std::find(result.begin(), result.end(), ends) != result.end()) return;
      result.push_back(ends);
    };
    if (problem_.memory > 0) {
      for (const Partition& partition :
           search_partition(problem_, blocks_, kPartitionsTried).best) {
        add(partition.ends);
      }
      for (int rounds = 1; rounds <= 4; ++rounds) {
        add(balanced_partition(problem_, blocks_, problem_.devices * rounds));
      }
    }
    add(finest);
    return result;
  }

  const PlanQuestion& question_;
  const Chain& chain_;
  EvaluatorProblem problem_;
  std::vector<BlockCosts> blocks_;
  std::vector<std::optional<int>> roots_;
  std::set<std::tuple<std::vector<int>, int, bool>> tried_;
  std::optional<StrategyPlan> best_;
  std::vector<int> best_ends_;
  int best_slots_ = 0;
};

}  // namespace

StrategyAnswer plan_mobius(const PlanQuestion& question, const Chain& chain) {
  return ShapeSearch(question, chain).run();
}

}  // namespace ferry
