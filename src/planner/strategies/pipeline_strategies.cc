// Strategies `gpipe`, `1f1b`, `interleaved` and `mixed-pipe`: stages stay on their devices and
// micro-batches pass through them. They differ in their order rule alone, and with it in what is in
// flight; under mixed-pipe stages may also lie as Mixed-pipe puts them.
#include "planner/strategies/pipeline_strategies.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "planner/costs/queues.h"
#include "planner/cuts/asked_stages.h"
#include "planner/cuts/mapping.h"
#include "planner/orders/orders.h"
#include "planner/orders/pipeline.h"
#include "planner/strategies/mixed_schedules.h"
#include "planner/strategies/pipeline_partition.h"
#include "planner/write/activation_policy.h"
#include "planner/write/pipeline_plan.h"
#include "spec/strategy_names.h"

namespace ferry {
namespace {

std::size_t index(int id) { return static_cast<std::size_t>(id); }

constexpr double kImpossible = std::numeric_limits<double>::infinity();
constexpr int kRoomySpare = 4;  // slots with which copies no longer wait for slots, as a rule
constexpr int kDefaultChunks = 2;
constexpr int kMostShifts = 64;

struct PipelineStrategy {
  const char* name;
  OrderRule rule;
  bool mixed = false;  // stages may also lie as Mixed-pipe puts them
};

/// The job's keys about stages and devices, checked, and what follows from them.
class PipelineChoices {
 public:
  PipelineChoices(const PlanQuestion& question, int blocks, OrderRule rule)
      : question_(question), blocks_(blocks) {
    const PlanJob& options = question.options;
    if (options.stages) ends_ = ends_of(*options.stages, blocks, "plan.stages");
    std::vector<int> slots(question.machine.devices.size());
    std::iota(slots.begin(), slots.end(), 0);
    if (options.devices) slots = checked(*options.devices);
    const int stages = stage_count(static_cast<int>(slots.size()), rule);
    if (options.map == MapRule::cross && !options.devices)
      slots = cross_mapping(roots_of(question_.machine), stages);
    const auto width = slots.size();
    for (std::size_t s = 0; s < index(stages); ++s) {
      const bool back = options.map == MapRule::v && s / width % 2 == 1;
      device_of_stage_.push_back(slots[back ? width - 1 - s % width : s % width]);
    }
  }

  /// As given; empty: to be searched.
  const std::vector<int>& ends() const { return ends_; }
  const std::vector<int>& device_of_stage() const { return device_of_stage_; }

  /// Where devices share root complexes, neighbours below different ones may be faster.
  std::optional<std::vector<int>> cross_mapped() const {
    const PlanJob& options = question_.options;
    if (options.map != MapRule::automatic || options.devices) return std::nullopt;
    if (question_.machine.roots.empty()) return std::nullopt;
    const int stages = static_cast<int>(device_of_stage_.size());
    const std::vector<int> slots = cross_mapping(roots_of(question_.machine), stages);
    std::vector<int> result;
    for (std::size_t s = 0; s < index(stages); ++s) result.push_back(slots[s % slots.size()]);
    if (result == device_of_stage_) return std::nullopt;
    return result;
  }

 private:
  const std::vector<int>& checked(const std::vector<int>& slots) const {
    const int devices = static_cast<int>(question_.machine.devices.size());
    if (slots.empty()) throw UserError("plan.devices names no device; leave it out for all");
    for (const int d : slots) {
      if (d >= 0 && d < devices) continue;
      throw UserError("plan.devices has device " + std::to_string(d) + "; expected 0 to " +
                      std::to_string(devices - 1) + ", the machine's");
    }
    return slots;
  }

  int stage_count(int slots, OrderRule rule) const {
    if (!ends_.empty()) return static_cast<int>(ends_.size());
    const int asked = question_.options.chunks > 0 ? question_.options.chunks : kDefaultChunks;
    const int chunks = rule == OrderRule::interleaved ? asked : 1;
    return std::min(slots, blocks_) * std::clamp(blocks_ / slots, 1, chunks);
  }

  const PlanQuestion& question_;
  int blocks_;
  std::vector<int> ends_;
  std::vector<int> device_of_stage_;
};

class PipelineSearch {
 public:
  PipelineSearch(const PlanQuestion& question, const Chain& chain, const PipelineStrategy& strategy)
      : question_(question),
        chain_(chain),
        strategy_(strategy),
        memory_(question, chain),
        blocks_(static_cast<int>(chain.size())),
        choices_(question, blocks_, strategy.rule),
        device_of_stage_(choices_.device_of_stage()),
        stages_(static_cast<int>(device_of_stage_.size())),
        stages_of_device_(question.machine.devices.size()) {
    for (const int d : device_of_stage_) ++stages_of_device_[index(d)];
    const Pipeline pipeline = pipeline_of(even_ends());
    in_flight_ = stages_in_flight(pipeline, pipeline_orders(strategy_.rule, pipeline));
  }

  /// The fastest plan that fits; else what the one of least memory lacks.
  StrategyAnswer run() {
    // Whether the strategy fits at all is decided by its schedule of least memory alone, so that
    // more memory never hurts.
    const bool given = !choices_.ends().empty();
    const std::vector<int> least_memory = given ? choices_.ends() : least_memory_ends();
    best_schedule_ = schedule_of(least_memory, 0);
    if (auto lacking = try_schedule(best_schedule_)) return *lacking;
    if (!given) {
      const std::vector<int> even = fastest_ends(false);
      if (!even.empty()) {
        try_roomiest(shifted(even));
        try_roomiest(even);
        try_roomiest(fastest_ends(true));
      }
    }
    try_roomiest(least_memory);
    try_cross_mapping();
    if (strategy_.mixed && !given && !question_.options.devices) try_mixed();
    return std::move(*best_);
  }

  /// Of the best plan, or the one of least memory when none fits. Requires: run() has run.
  const PipelineSchedule& schedule() const { return best_schedule_; }

 private:
  // ---- schedules ----

  std::vector<int> even_ends() const {
    if (!choices_.ends().empty()) return choices_.ends();
    std::vector<int> ends;
    for (int s = 1; s <= stages_; ++s) ends.push_back(blocks_ * s / stages_);
    return ends;
  }

  Pipeline pipeline_of(const std::vector<int>& ends) const {
    return cut_pipeline(chain_, ends, device_of_stage_, question_.micro_batches);
  }

  PipelineSchedule schedule_of(const std::vector<int>& ends, int spare) const {
    const Pipeline pipeline = pipeline_of(ends);
    return {ends, device_of_stage_,
            sequence_of(pipeline, pipeline_orders(strategy_.rule, pipeline)), spare};
  }

  // ---- memory and time of cuts ----

  /// A stage's share of its device.
  double share(int stage) const {
    const int d = device_of_stage_[index(stage)];
    return static_cast<double>(device_limit(question_, d).count) / stages_of_device_[index(d)];
  }
  double need(int stage, int first, int end) const {
    return static_cast<double>(memory_.need(first, end, in_flight_[index(stage)]).count);
  }

  /// The cut that fits if any does. With several stages on a device their sum counts, so limits are
  /// left out there, and the cut is the same under every budget.
  std::vector<int> least_memory_ends() const {
    const bool one_each = std::ranges::all_of(stages_of_device_, [](int n) { return n <= 1; });
    double most = 0;
    for (int s = 0; s < stages_; ++s) most = std::max(most, share(s));
    return least_costliest(blocks_, stages_, [&](int stage, int first, int end) {
      return need(stage, first, end) + (one_each ? most - share(stage) : 0.0);
    });
  }

  std::vector<int> fastest_ends(bool with_updates) const {
    return least_costliest(blocks_, stages_, [&](int stage, int first, int end) {
      if (need(stage, first, end) > share(stage)) return kImpossible;
      double micros = 0;
      for (int b = first; b < end; ++b) micros += time_of(b, with_updates);
      return micros;
    });
  }

  double time_of(int b, bool with_update) const {
    const ChainBlock& block = chain_.blocks[index(b)];
    const Micros passes = block.backward + (has_forward(block) ? block.forward : Micros{});
    const bool updates = with_update && block.trainable;
    return passes.count * question_.micro_batches + (updates ? block.device_update.count : 0.0);
  }

  /// Shifts single cuts while that shortens the step without its copies.
  std::vector<int> shifted(std::vector<int> ends) const {
    Micros best = step_of(ends);
    for (int shift = 0; shift < kMostShifts; ++shift) {
      std::vector<int> next;
      for (int s = 0; s + 1 < stages_; ++s) {
        for (const int by : {-1, 1}) {
          std::vector<int> tried = ends;
          tried[index(s)] += by;
          if (!is_possible(tried)) continue;
          const Micros step = step_of(tried);
          if (step >= best) continue;
          best = step;
          next = std::move(tried);
        }
      }
      if (next.empty()) break;
      ends = std::move(next);
    }
    return ends;
  }

  bool is_possible(const std::vector<int>& ends) const {
    int first = 0;
    for (int s = 0; s < stages_; ++s) {
      const int end = ends[index(s)];
      if (end <= first || need(s, first, end) > share(s)) return false;
      first = end;
    }
    return true;
  }

  Micros step_of(const std::vector<int>& ends) const {
    const Pipeline pipeline = pipeline_of(ends);
    const DeviceOrders orders = pipeline_orders(strategy_.rule, pipeline);
    return step_without_copies(chain_, ends, pipeline, orders, question_.clips);
  }

  // ---- plans ----

  /// Keeps the schedule's plan when it fits and is faster than the best, as it is or with
  /// activations in the memory that it leaves; else returns what it lacks.
  std::optional<Shortage> try_schedule(PipelineSchedule schedule) {
    const ActivationRule rule = question_.options.activations;
    schedule.policies = rule == ActivationRule::keep ? keep_all(chain_, kept_slots(schedule))
                                                     : ActivationPolicies{};
    Plan plan = write_pipeline_plan(question_, chain_, schedule, strategy_.name);
    std::vector<Shortage> lacking = shortages(plan);
    if (!lacking.empty()) return std::move(lacking.front());
    PipelineSchedule keeping = schedule;
    if (rule == ActivationRule::automatic) keeping.policies = policies_in(rooms_of(plan), schedule);
    if (saves_any(keeping.policies)) {
      consider(keeping, write_pipeline_plan(question_, chain_, keeping, strategy_.name));
    }
    consider(schedule, std::move(plan));
    return std::nullopt;
  }

  void consider(const PipelineSchedule& schedule, Plan plan) {
    if (best_ && find_busiest(plan).time >= best_->prediction.step) return;
    Simulation prediction = simulate(plan);
    if (best_ && prediction.step >= best_->prediction.step) return;
    best_ = StrategyPlan{std::move(plan), std::move(prediction), {}};
    best_schedule_ = schedule;
  }

  /// A stage's queue is in order, so whatever a device keeps shortens its runs and delays nobody.
  ActivationPolicies policies_in(std::vector<DeviceRoom> rooms,
                                 const PipelineSchedule& schedule) const {
    std::vector<int> device_of_block;
    for (std::size_t s = 0; s < schedule.ends.size(); ++s) {
      device_of_block.resize(index(schedule.ends[s]), schedule.device_of_stage[s]);
    }
    const KeptSlots slots = kept_slots(schedule);
    const std::vector<BlockId> order = by_device_density(chain_, slots, question_.micro_batches);
    return keep_what_fits(chain_, order, slots, device_of_block, std::move(rooms));
  }

  /// Slots to spare compete for memory with what blocks keep, so every number of them is tried
  /// where something can be kept.
  void try_roomiest(const std::vector<int>& ends) {
    const bool may_keep = question_.options.activations == ActivationRule::automatic &&
                          std::ranges::any_of(chain_.blocks, [](const ChainBlock& block) {
                            return block.saved > Bytes{};
                          });
    for (int spare = kRoomySpare; spare > 0; spare /= 2) {
      if (!try_schedule(schedule_of(ends, spare)) && !may_keep) return;
    }
    if (may_keep) try_schedule(schedule_of(ends, 0));
  }

  void try_cross_mapping() {
    const auto cross = choices_.cross_mapped();
    if (!cross) return;
    device_of_stage_ = *cross;
    try_schedule(schedule_of(best_schedule_.ends, best_schedule_.spare_slots));
  }

  void try_mixed() {
    for (PipelineSchedule& schedule : mixed_schedules(question_, chain_)) {
      for (schedule.spare_slots = kRoomySpare;
           try_schedule(schedule) && schedule.spare_slots > 0;) {
        schedule.spare_slots /= 2;
      }
    }
  }

  const PlanQuestion& question_;
  const Chain& chain_;
  const PipelineStrategy& strategy_;
  StageMemory memory_;
  int blocks_;
  PipelineChoices choices_;
  std::vector<int> device_of_stage_;
  int stages_;
  std::vector<int> stages_of_device_;
  std::vector<int> in_flight_;  // by stage
  PipelineSchedule best_schedule_;
  std::optional<StrategyPlan> best_;
};

PlanReport report_of(const PlanQuestion& question, const PipelineSchedule& schedule) {
  PlanReport report;
  report.mapping = schedule.device_of_stage;
  Pipeline pipeline;
  pipeline.device = schedule.device_of_stage;
  const std::vector<int> held = stages_in_flight(pipeline, {schedule.order});
  report.series["in_flight"] = std::vector<double>(held.begin(), held.end());
  int first = 0;
  for (std::size_t s = 0; s < schedule.ends.size(); ++s) {
    const auto device = index(schedule.device_of_stage[s]);
    const Direction direction =
        question.mode == PlanMode::train ? Direction::both : Direction::forward;
    report.stages.push_back(
        {direction, question.machine.devices[device].name, first, schedule.ends[s]});
    first = schedule.ends[s];
  }
  return report;
}

StrategyAnswer answer(const PlanQuestion& question, StrategyAnswer found,
                      const PipelineSchedule& schedule) {
  if (auto* planned = std::get_if<StrategyPlan>(&found)) {
    planned->report = report_of(question, schedule);
    planned->remark = std::to_string(schedule.ends.size()) + " stages, " +
                      std::to_string(schedule.spare_slots) + " spare slots";
  }
  return found;
}

/// An evaluation has the homes of the training plan that the same job gets.
StrategyAnswer plan_pipeline(const PlanQuestion& question, const Chain& chain,
                             const PipelineStrategy& strategy) {
  if (question.mode == PlanMode::train) {
    PipelineSearch search(question, chain, strategy);
    StrategyAnswer found = search.run();
    return answer(question, std::move(found), search.schedule());
  }
  PlanQuestion training = question;
  training.mode = PlanMode::train;
  const Chain training_chain = make_chain(training);
  PipelineSearch search(training, training_chain, strategy);
  search.run();
  Plan plan = write_pipeline_plan(question, chain, search.schedule(), strategy.name);
  std::vector<Shortage> lacking = shortages(plan);
  if (!lacking.empty()) return std::move(lacking.front());
  Simulation prediction = simulate(plan);
  return answer(question, StrategyPlan{std::move(plan), std::move(prediction), {}},
                search.schedule());
}

}  // namespace

StrategyAnswer plan_gpipe(const PlanQuestion& question, const Chain& chain) {
  return plan_pipeline(question, chain, {strategy_name::kGpipe, OrderRule::gpipe});
}

StrategyAnswer plan_one_f_one_b(const PlanQuestion& question, const Chain& chain) {
  return plan_pipeline(question, chain, {strategy_name::kOneFOneB, OrderRule::one_f_one_b});
}

StrategyAnswer plan_interleaved(const PlanQuestion& question, const Chain& chain) {
  return plan_pipeline(question, chain, {strategy_name::kInterleaved, OrderRule::interleaved});
}

StrategyAnswer plan_mixed_pipe(const PlanQuestion& question, const Chain& chain) {
  return plan_pipeline(question, chain, {strategy_name::kMixedPipe, OrderRule::one_f_one_b, true});
}

}  // namespace ferry
