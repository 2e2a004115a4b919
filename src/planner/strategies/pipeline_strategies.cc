// Strategies `gpipe`, `1f1b`, `interleaved` and `mixed-pipe`: stages stay on their devices and
// micro-batches pass through them. They differ in their order rule alone, and with it in what is in
// flight; under mixed-pipe stages may also lie as Mixed-pipe puts them.
#include "planner/strategies/pipeline_strategies.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <variant>

#include "planner/costs/queues.h"
#include "planner/cuts/asked_stages.h"
#include "planner/cuts/contiguous.h"
#include "planner/orders/orders.h"
#include "planner/orders/pipeline.h"
#include "planner/strategies/mixed_schedules.h"
#include "planner/strategies/passes.h"
#include "planner/strategies/pipeline_partition.h"
#include "planner/write/activation_policy.h"
#include "planner/write/edges.h"
#include "planner/write/stream_plan.h"
#include "spec/pass_names.h"
#include "spec/strategy_names.h"

namespace ferry {
namespace {

constexpr int kRoomySpare = 4;  // slots with which copies no longer wait for slots, as a rule
constexpr int kDefaultChunks = 2;
constexpr int kMostShifts = 64;

struct PipelineStrategy {
  const char* name;
  OrderRule rule;
  bool mixed = false;  // stages may also lie as Mixed-pipe puts them
};

int stage_count(const PlanQuestion& question, int blocks, OrderRule rule) {
  if (question.options.stages) return static_cast<int>(question.options.stages->size());
  const int slots = static_cast<int>(asked_devices(question).size());
  const int asked = question.options.chunks > 0 ? question.options.chunks : kDefaultChunks;
  const int chunks = rule == OrderRule::interleaved ? asked : 1;
  return std::min(slots, blocks) * std::clamp(blocks / slots, 1, chunks);
}

using PipelineDraft = Draft<PipelineSchedule>;

class PipelineSearch {
 public:
  PipelineSearch(const PlanQuestion& question, const Chain& chain, const PipelineStrategy& strategy)
      : question_(question),
        chain_(chain),
        strategy_(strategy),
        memory_(question, chain),
        blocks_(static_cast<int>(chain.size())),
        asked_ends_(asked_ends(question, blocks_)),
        stages_(stage_count(question, blocks_, strategy.rule)),
        device_of_stage_(asked_map(question, stages_)),
        stages_of_device_(question.machine.devices.size()),
        passes_(question) {
    for (const int d : device_of_stage_) ++stages_of_device_[d];
    const Pipeline pipeline = pipeline_of(even_ends());
    in_flight_ = stages_in_flight(pipeline, pipeline_orders(strategy_.rule, pipeline));
  }

  /// Whether the strategy fits at all is decided by this schedule alone, so that more memory never
  /// hurts.
  PipelineSchedule least_memory() const {
    return schedule_of(asked_ends_ ? *asked_ends_ : least_memory_ends(), 0);
  }

  /// The fastest draft that fits; else what the one of least memory lacks.
  std::variant<PipelineDraft, Shortage> run() {
    const PipelineSchedule least = least_memory();
    Attempt attempt = try_schedule(least, {});
    if (attempt.lacking) return std::move(*attempt.lacking);
    PipelineDraft draft = std::move(*attempt.draft);
    const std::optional<Cuts> even = asked_ends_ ? std::nullopt : fastest_ends(false);
    if (even) {
      draft = passes_.run(pass_name::kCuts, std::move(draft), [&](PipelineDraft start) {
        return roomiest(std::move(start), shifted(*even));
      });
      draft = passes_.run(pass_name::kEvenCuts, std::move(draft), [&](PipelineDraft start) {
        return roomiest(roomiest(std::move(start), *even), fastest_ends(true).value());
      });
    }
    draft = passes_.run(pass_name::kRings, std::move(draft), [&](PipelineDraft start) {
      return roomiest(std::move(start), least.ends);
    });
    draft = passes_.run(pass_name::kCrossMapping, std::move(draft),
                        [&](PipelineDraft start) { return best_cross_mapping(std::move(start)); });
    std::vector<PipelineSchedule> mixed;
    if (strategy_.mixed && !asked_ends_ && !question_.options.devices) {
      draft = passes_.run(pass_name::kMixed, std::move(draft), [&](PipelineDraft start) {
        mixed = all_mixed();
        return best_mixed(std::move(start), mixed);
      });
    }
    if (!may_send(question_)) return draft;
    return passes_.run(pass_name::kP2p, std::move(draft), [&](PipelineDraft start) {
      std::vector<PipelineSchedule> schedules = std::move(mixed);
      for (const std::vector<int>& ends : cuts(least, even)) {
        schedules.push_back(schedule_of(ends, 0));
      }
      schedules.push_back(start.schedule);
      return best_straight(std::move(start), std::move(schedules));
    });
  }

  /// What run() took.
  const Passes& passes() const { return passes_; }

 private:
  struct Attempt {
    std::optional<PipelineDraft> draft;  // when it is fast enough
    std::optional<Shortage> lacking;
  };

  // ---- schedules ----

  std::vector<int> even_ends() const {
    if (asked_ends_) return *asked_ends_;
    std::vector<int> ends;
    for (int s = 1; s <= stages_; ++s) ends.push_back(blocks_ * s / stages_);
    return ends;
  }

  /// All that passes try. What goes straight is not led by the fastest of what does not: with more
  /// memory that may be another one.
  std::vector<std::vector<int>> cuts(const PipelineSchedule& least,
                                     const std::optional<Cuts>& even) const {
    std::vector<std::vector<int>> all = {least.ends};
    if (!even) return all;
    if (passes_.has(pass_name::kCuts)) all.push_back(shifted(*even));
    if (!passes_.has(pass_name::kEvenCuts)) return all;
    all.push_back(*even);
    all.push_back(fastest_ends(true).value());
    return all;
  }

  Pipeline pipeline_of(const std::vector<int>& ends) const {
    return cut_pipeline(chain_, ends, device_of_stage_, question_.micro_batches);
  }

  PipelineSchedule schedule_of(const std::vector<int>& ends, int spare) const {
    return schedule_on(device_of_stage_, ends, spare);
  }

  PipelineSchedule schedule_on(const std::vector<int>& device_of_stage,
                               const std::vector<int>& ends, int spare) const {
    const Pipeline pipeline = cut_pipeline(chain_, ends, device_of_stage, question_.micro_batches);
    return {ends, device_of_stage, sequence_of(pipeline, pipeline_orders(strategy_.rule, pipeline)),
            spare};
  }

  // ---- memory and time of cuts ----

  /// A stage's share of its device.
  double share(int stage) const {
    const int d = device_of_stage_[stage];
    return static_cast<double>(device_limit(question_, d).count) / stages_of_device_[d];
  }
  double need(int stage, int first, int end) const {
    return static_cast<double>(memory_.need(first, end, in_flight_[stage]).count);
  }

  /// The cut that fits if any does. With several stages on a device their sum counts, so limits are
  /// left out there, and the cut is the same under every budget.
  std::vector<int> least_memory_ends() const {
    const bool one_each = std::ranges::all_of(stages_of_device_, [](int n) { return n <= 1; });
    double most = 0;
    for (int s = 0; s < stages_; ++s) most = std::max(most, share(s));
    const auto cost = [&](int stage, int first, int end) {
      return need(stage, first, end) + (one_each ? most - share(stage) : 0.0);
    };
    return min_max_cuts(blocks_, stages_, cost, CutTies::evenest_so_far).value();
  }

  std::optional<Cuts> fastest_ends(bool with_updates) const {
    const auto time = [&](int stage, int first, int end) {
      if (need(stage, first, end) > share(stage)) return kForbidden;
      double micros = 0;
      for (int b = first; b < end; ++b) micros += time_of(b, with_updates);
      return micros;
    };
    return min_max_cuts(blocks_, stages_, time, CutTies::evenest_so_far);
  }

  double time_of(int b, bool with_update) const {
    const ChainBlock& block = chain_.blocks[b];
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
          tried[s] += by;
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
      const int end = ends[s];
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

  /// The schedule's draft, as it is or with activations in the memory that it leaves; nothing when
  /// neither is `faster_than`.
  Attempt try_schedule(PipelineSchedule schedule, std::optional<Micros> faster_than) const {
    const ActivationRule rule = question_.options.activations;
    schedule.policies = rule == ActivationRule::keep ? keep_all(chain_, slots_in_flight(schedule))
                                                     : ActivationPolicies{};
    Plan plan = unordered_plan(schedule);
    std::vector<Shortage> lacking = shortages(plan);
    if (!lacking.empty()) return {std::nullopt, std::move(lacking.front())};
    Attempt attempt;
    if (may_keep()) {
      PipelineSchedule keeping = schedule;
      keeping.policies = policies_in(rooms_of(plan), schedule);
      if (saves_any(keeping.policies)) {
        Plan kept = unordered_plan(keeping);
        attempt.draft = draft_of(std::move(keeping), std::move(kept), faster_than);
        if (attempt.draft) faster_than = attempt.draft->step();
      }
    }
    if (auto draft = draft_of(std::move(schedule), std::move(plan), faster_than)) {
      attempt.draft = std::move(draft);
    }
    return attempt;
  }

  Plan unordered_plan(const PipelineSchedule& schedule) const {
    return write_stream_plan(question_, chain_,
                             visits_of(question_, chain_, schedule, strategy_.name));
  }

  static std::optional<PipelineDraft> draft_of(PipelineSchedule schedule, Plan plan,
                                               std::optional<Micros> faster_than) {
    if (faster_than && find_busiest(plan).time >= *faster_than) return std::nullopt;
    order_accesses(plan);
    Simulation prediction = simulate(plan);
    if (faster_than && prediction.step >= *faster_than) return std::nullopt;
    return PipelineDraft{std::move(schedule), std::move(plan), std::move(prediction)};
  }

  /// A stage's queue is in order, so whatever a device keeps shortens its runs and delays nobody.
  ActivationPolicies policies_in(std::vector<DeviceRoom> rooms,
                                 const PipelineSchedule& schedule) const {
    std::vector<int> device_of_block;
    for (std::size_t s = 0; s < schedule.ends.size(); ++s) {
      device_of_block.resize(schedule.ends[s], schedule.device_of_stage[s]);
    }
    const KeptSlots slots = slots_in_flight(schedule);
    const std::vector<BlockId> order = by_device_density(chain_, slots, question_.micro_batches);
    return keep_what_fits(chain_, order, slots, device_of_block, std::move(rooms));
  }

  bool may_keep() const {
    return question_.options.activations == ActivationRule::automatic &&
           passes_.has(pass_name::kActivations) &&
           std::ranges::any_of(chain_.blocks,
                               [](const ChainBlock& block) { return block.saved > Bytes{}; });
  }

  /// The draft, or the cut's fastest when that is faster. Slots to spare compete for memory with
  /// what blocks keep, so every number of them is tried where something can be kept.
  PipelineDraft roomiest(PipelineDraft draft, const std::vector<int>& ends) const {
    int spare = passes_.has(pass_name::kRings) ? kRoomySpare : 0;
    for (; spare > 0; spare /= 2) {
      const Micros step = draft.step();
      Attempt attempt = try_schedule(schedule_of(ends, spare), step);
      if (attempt.draft) draft = std::move(*attempt.draft);
      if (!attempt.lacking && !may_keep()) return draft;
    }
    if (!may_keep() && passes_.has(pass_name::kRings)) return draft;
    const Micros step = draft.step();
    Attempt attempt = try_schedule(schedule_of(ends, 0), step);
    return attempt.draft ? std::move(*attempt.draft) : std::move(draft);
  }

  /// Where devices share root complexes, neighbours below different ones may be faster.
  PipelineDraft best_cross_mapping(PipelineDraft draft) const {
    const PlanJob& options = question_.options;
    if (options.map != MapRule::automatic || options.devices) return draft;
    if (question_.machine.roots.empty()) return draft;
    const std::vector<int> cross = cross_map(question_, stages_);
    if (cross == device_of_stage_) return draft;
    const PipelineSchedule crossed =
        schedule_on(cross, draft.schedule.ends, draft.schedule.spare_slots);
    Attempt attempt = try_schedule(crossed, draft.step());
    return attempt.draft ? std::move(*attempt.draft) : std::move(draft);
  }

  std::vector<PipelineSchedule> all_mixed() const {
    std::vector<PipelineSchedule> schedules = mixed_schedules(question_, chain_);
    for (PipelineSchedule& turns : schedules_in_turns(question_, chain_)) {
      schedules.push_back(std::move(turns));
    }
    return schedules;
  }

  /// With as many spare slots as fit.
  PipelineDraft best_mixed(PipelineDraft draft, std::vector<PipelineSchedule> schedules) const {
    for (PipelineSchedule& schedule : schedules) {
      for (schedule.spare_slots = kRoomySpare;; schedule.spare_slots /= 2) {
        Attempt attempt = try_schedule(schedule, draft.step());
        if (attempt.draft) draft = std::move(*attempt.draft);
        if (!attempt.lacking || schedule.spare_slots == 0) break;
      }
    }
    return draft;
  }

  /// The draft or one of the schedules, with what passes between devices going straight.
  PipelineDraft best_straight(PipelineDraft draft, std::vector<PipelineSchedule> schedules) const {
    for (PipelineSchedule& schedule : schedules) {
      schedule.straight = true;
      schedule.spare_slots = passes_.has(pass_name::kRings) ? kRoomySpare : 0;
      for (;; schedule.spare_slots /= 2) {
        const bool spares = !draft.schedule.straight;  // links, which is worth it at equal steps
        const Micros limit = spares ? as_fast_as(draft.step()) : draft.step();
        Attempt attempt = try_schedule(schedule, limit);
        if (attempt.draft) draft = std::move(*attempt.draft);
        if (schedule.spare_slots == 0 || (!attempt.lacking && !may_keep())) break;
      }
    }
    return draft;
  }

  const PlanQuestion& question_;
  const Chain& chain_;
  const PipelineStrategy& strategy_;
  StageMemory memory_;
  int blocks_;
  std::optional<std::vector<int>> asked_ends_;
  int stages_;
  std::vector<int> device_of_stage_;
  std::vector<int> stages_of_device_;
  std::vector<int> in_flight_;  // by stage
  Passes passes_;
};

PlanReport report_of(const PlanQuestion& question, const PipelineSchedule& schedule) {
  PlanReport report;
  report.mapping = schedule.device_of_stage;
  Pipeline pipeline;
  pipeline.device = schedule.device_of_stage;
  const std::vector<int> held = stages_in_flight(pipeline, {schedule.order});
  report.series["in_flight"] = std::vector<double>(held.begin(), held.end());
  report.stages =
      stage_reports(question.machine, schedule.ends, schedule.device_of_stage,
                    question.mode == PlanMode::train ? Direction::both : Direction::forward);
  return report;
}

StrategyPlan answer_of(const PlanQuestion& question, PipelineDraft draft, const Passes& passes) {
  std::string remark = std::to_string(draft.schedule.ends.size()) + " stages, " +
                       std::to_string(draft.schedule.spare_slots) + " spare slots";
  PlanReport report = report_of(question, draft.schedule);
  return {std::move(draft.plan), std::move(draft.prediction), std::move(remark), std::move(report),
          passes.reports()};
}

/// An evaluation has the homes of the training plan that the same job gets.
StrategyAnswer plan_pipeline(const PlanQuestion& question, const Chain& chain,
                             const PipelineStrategy& strategy) {
  if (question.mode == PlanMode::train) {
    PipelineSearch search(question, chain, strategy);
    std::variant<PipelineDraft, Shortage> found = search.run();
    if (auto* lacking = std::get_if<Shortage>(&found)) return std::move(*lacking);
    return answer_of(question, std::get<PipelineDraft>(std::move(found)), search.passes());
  }
  PlanQuestion training = question;
  training.mode = PlanMode::train;
  const Chain training_chain = make_chain(training);
  PipelineSearch search(training, training_chain, strategy);
  const std::variant<PipelineDraft, Shortage> found = search.run();
  const auto* trained = std::get_if<PipelineDraft>(&found);
  PipelineSchedule schedule = trained != nullptr ? trained->schedule : search.least_memory();
  Plan plan =
      write_stream_plan(question, chain, visits_of(question, chain, schedule, strategy.name));
  std::vector<Shortage> lacking = shortages(plan);
  if (!lacking.empty()) return std::move(lacking.front());
  order_accesses(plan);
  Simulation prediction = simulate(plan);
  return answer_of(question, {std::move(schedule), std::move(plan), std::move(prediction)},
                   search.passes());
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
