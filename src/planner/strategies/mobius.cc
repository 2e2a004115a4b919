// Strategy `mobius`: contiguous stages pass through the devices, each with the largest prefetch
// that its memory allows; weights, states and gradients are at home on the host, which updates
// them.
#include "planner/strategies/mobius.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "planner/costs/bounds.h"
#include "planner/costs/queues.h"
#include "planner/cuts/asked_stages.h"
#include "planner/cuts/contiguous.h"
#include "planner/cuts/mapping.h"
#include "planner/cuts/mip.h"
#include "planner/cuts/partition.h"
#include "planner/orders/orders.h"
#include "planner/orders/pipeline.h"
#include "planner/strategies/coarse_step.h"
#include "planner/strategies/homes.h"
#include "planner/strategies/mobius_problem.h"
#include "planner/strategies/rounds.h"
#include "planner/strategies/streaming.h"
#include "planner/write/pipeline_schedule.h"
#include "planner/write/stream_schedule.h"
#include "spec/pass_names.h"

namespace ferry {
namespace {

// The evaluator's best; the simulator chooses among them.
constexpr int kPartitionsTried = 6;
constexpr int kSmallPartitionsTried = 12;  // of a small step

// Stage j in slot j mod N, forward and backward; all micro-batches of a round before a device
// changes stage.
StreamSchedule mobius_schedule(const PlanQuestion& question, const std::vector<int>& ends,
                               const std::vector<int>& device_of_slot) {
  StreamSchedule schedule;
  schedule.strategy = "mobius";
  schedule.devices = static_cast<int>(device_of_slot.size());
  const int stages = static_cast<int>(ends.size());
  for (int round = 0; round < question.rounds; ++round) {
    const int first_batch = first_of_round(question, round);
    const int end_batch = first_of_round(question, round + 1);
    const auto visit = [&](Direction pass, int j) {
      const std::size_t at = j;
      const int device = device_of_slot[at % device_of_slot.size()];
      schedule.visits.push_back(
          {pass, device, j == 0 ? 0 : ends[at - 1], ends[at], first_batch, end_batch});
    };
    for (int j = 0; j < stages; ++j) visit(Direction::forward, j);
    if (question.mode != PlanMode::train) continue;
    for (int j = stages; j-- > 0;) visit(Direction::backward, j);
  }
  return schedule;
}

/// A layer each: attention and MLP, the first stage with `first` blocks.
std::vector<int> layer_ends(const Chain& chain, int first) {
  const int blocks = static_cast<int>(chain.size());
  std::vector<int> ends;
  for (int end = first; end + 1 < blocks; end += 2) ends.push_back(end);
  ends.push_back(blocks);
  return ends;
}

class MobiusSearch {
 public:
  MobiusSearch(const PlanQuestion& question, const Chain& chain)
      : question_(question),
        chain_(chain),
        search_(question, chain, StreamSearch::Homes::anywhere),
        roots_(roots_of(question.machine)) {
    for (int b = 0; b < static_cast<int>(chain.size()); ++b) {
      blocks_.push_back(costs_of(question, chain, b));
    }
  }

  /// Stages of a layer each are evener: where attention and MLP alternate, half of the devices may
  /// have no MLP.
  std::optional<Shortage> start() {
    if (const auto asked = asked_stages()) return search_.start(schedule_of(*asked));
    return search_.start(schedule_of(finest_partition(chain_)),
                         std::vector{schedule_of(layer_ends(chain_, 1))});
  }

  /// Requires: start() returned nothing, here and in what follows.
  StrategyPlan run() {
    for (const CoarseStep& step : coarse_steps(StreamSearch::kShortPlan)) look_at(step);
    return answer(climb());
  }

  /// In place of run(), where plans are large: the best that one coarse step finds, if that fits,
  /// for answer(). It takes half as long as it does in run().
  std::optional<StreamDraft> run_coarse() {
    if (search_.least_tasks() <= StreamSearch::kShortPlan) return std::nullopt;
    const std::vector<CoarseStep> steps = coarse_steps(StreamSearch::kShortPlan / 2);
    if (steps.empty()) return std::nullopt;
    return look_at(steps.front());
  }

  StrategyPlan answer(const StreamDraft& draft) {
    const StreamSchedule& schedule = draft.schedule;
    const std::size_t stages = stage_count(schedule);
    std::string remark = std::to_string(stages) + " stages";
    if (question_.rounds > 1) remark += ", " + std::to_string(question_.rounds) + " rounds";
    StrategyPlan plan = search_.answer(draft, remark);
    plan.report.mapping = slots_of(schedule);
    plan.report.figures["contention_degree"] =
        contention_degree(roots_, plan.report.mapping, static_cast<int>(stages));
    plan.report.figures["mapping_gain"] = mapping_gain(draft);
    if (question_.rounds > 1) plan.report.figures["rounds"] = question_.rounds;
    return plan;
  }

  const DramNeed& need_of_dram() const { return search_.need_of_dram(); }

  bool is_short_of_dram() const { return search_.is_short_of_dram(); }

  bool tires_at_once() const { return search_.tires_at_once(); }

  bool has_large_plans() { return search_.least_tasks() > StreamSearch::kLargePlan; }

  bool rest_less_on_drives(double share) { return search_.rest_less_on_drives(share); }

 private:
  StreamDraft climb() {
    if (may_pipeline()) search_.offer_pipeline(pipeline());
    return search_.climb({[&] { return offer_all(); },
                          [&](StreamDraft given) {
                            return search_.passes().run(
                                pass_name::kMapping, std::move(given),
                                [&](StreamDraft one) { return best_mapping(std::move(one)); });
                          }});
  }

  std::vector<CoarseStep> coarse_steps(std::ptrdiff_t searchable) {
    if (question_.mode != PlanMode::train || question_.any_plan) return {};
    return ferry::coarse_steps(question_, chain_, search_.least_tasks(), searchable);
  }

  /// Few large plans can be tried, so what is best for a smaller one of the step is: the fastest of
  /// all that was.
  std::optional<StreamDraft> look_at(const CoarseStep& step) {
    MobiusSearch coarse(step.question, step.chain);
    if (coarse.start()) return std::nullopt;
    coarse.climb();
    std::vector<StreamDraft> found = coarse.search_.best_by_rung();
    for (StreamDraft& draft : found) {
      draft.schedule = fine_schedule(std::move(draft.schedule), step, question_);
    }
    return search_.try_beforehand(found);
  }

  std::optional<std::vector<int>> asked_stages() const {
    return asked_ends(question_, static_cast<int>(chain_.size()));
  }

  /// By plan.devices or plan.map, else cross mapping.
  std::vector<int> mapping(int stages) const {
    const auto& asked = question_.options.stages;
    return asked_slots(question_, asked ? static_cast<int>(asked->size()) : stages);
  }

  /// The device of each slot, in the order in which stages first run.
  std::vector<int> slots_of(const StreamSchedule& schedule) const {
    std::vector<int> slots;
    for (const StageVisit& visit : schedule.visits) {
      if (std::ranges::find(slots, visit.device) == slots.end()) slots.push_back(visit.device);
    }
    return slots;
  }

  bool may_pipeline() const {
    const PlanJob& options = question_.options;
    return question_.mode == PlanMode::train && question_.rounds == 1 && !options.stages &&
           options.partition != Partitioner::mip;
  }

  /// 1F1B of a stage for each device, which take equally long.
  StreamSchedule pipeline() const {
    const int blocks = static_cast<int>(chain_.size());
    const int devices = static_cast<int>(question_.machine.devices.size());
    std::vector<int> slots = mapping(std::min(devices, blocks));
    const int stages = std::min(static_cast<int>(slots.size()), blocks);
    slots.resize(static_cast<std::size_t>(stages));
    std::vector<double> times;
    for (const BlockCosts& block : blocks_) {
      times.push_back(block.forward_time + block.backward_time);
    }
    PipelineSchedule schedule;
    schedule.ends = min_max_cuts(times, stages);
    schedule.device_of_stage = std::move(slots);
    schedule.spare_slots = stages > 1 ? 1 : 0;
    const Pipeline cut =
        cut_pipeline(chain_, schedule.ends, schedule.device_of_stage, question_.micro_batches);
    schedule.order = sequence_of(cut, pipeline_orders(OrderRule::one_f_one_b, cut));
    return visits_of(question_, chain_, schedule, "mobius");
  }

  /// The formula treats all uploads as equal; here the simulator's own contention decides whether
  /// neighbouring slots change places.
  StreamDraft best_mapping(StreamDraft draft) {
    if (question_.options.devices || question_.options.map != MapRule::automatic) return draft;
    const StreamSchedule& chosen = draft.schedule;
    const std::vector<int> slots = slots_of(chosen);
    std::vector<StreamSchedule> mappings;
    for (std::size_t s = 0; s + 1 < slots.size(); ++s) {
      if (roots_[slots[s]] == roots_[slots[s + 1]]) continue;
      std::vector<int> swapped = slots;
      std::swap(swapped[s], swapped[s + 1]);
      mappings.push_back(remapped(chosen, slots, swapped));
    }
    return search_.fastest_of(std::move(draft), mappings);
  }

  /// The draft's gain over the formula's mapping of its slots.
  double mapping_gain(const StreamDraft& draft) {
    const std::vector<int> slots = slots_of(draft.schedule);
    std::vector<int> by_formula = mapping(static_cast<int>(stage_count(draft.schedule)));
    by_formula.resize(slots.size());
    if (slots == by_formula) return 0;
    const auto step = search_.step_of(remapped(draft.schedule, slots, by_formula), draft.rung);
    return step ? step->count / draft.step().count - 1 : 0;
  }

  /// The schedule with the devices `to` in place of `from`.
  static StreamSchedule remapped(StreamSchedule schedule, const std::vector<int>& from,
                                 const std::vector<int>& to) {
    for (StageVisit& visit : schedule.visits) {
      const auto at = std::ranges::find(from, visit.device) - from.begin();
      visit.device = to[static_cast<std::size_t>(at)];
    }
    return schedule;
  }

  StreamSchedule schedule_of(const std::vector<int>& ends) const {
    return mobius_schedule(question_, ends, mapping(static_cast<int>(ends.size())));
  }

  static std::size_t stage_count(const StreamSchedule& schedule) {
    const auto& visits = schedule.visits;
    return std::ranges::count_if(visits, [](const StageVisit& visit) {
      return visit.direction == Direction::forward && visit.first_batch == 0;
    });
  }

  /// Whether stages of other sizes would fit with more memory.
  bool offer_all() {
    const EvaluatorProblem problem = problem_of(search_.question(), chain_);
    std::vector<StreamSchedule> schedules;
    for (const auto& ends : candidates(problem)) schedules.push_back(schedule_of(ends));
    search_.offer(std::move(schedules));
    if (question_.options.stages) return false;
    for (const int first : {2, 3}) search_.offer_for_homes(schedule_of(layer_ends(chain_, first)));
    double all = 0;
    for (const BlockCosts& block : blocks_) all += block.forward_memory + block.backward_memory;
    return problem.memory < all;
  }

  std::vector<std::vector<int>> candidates(const EvaluatorProblem& problem) const {
    if (const auto asked = asked_stages()) return {*asked};
    std::vector<std::vector<int>> result;
    const auto add = [&](const std::vector<int>& ends) {
      if (ends.empty() || std::find(result.begin(), result.end(), ends) != result.end()) return;
      result.push_back(ends);
    };
    if (problem.memory > 0) {
      if (question_.options.partition == Partitioner::mip) {
        for (const Partition& partition : mip_partition(problem, blocks_).best) {
          add(partition.ends);
        }
      }
      const int tried = is_small_step(question_, chain_) ? kSmallPartitionsTried : kPartitionsTried;
      for (const Partition& partition : search_partition(problem, blocks_, tried).best) {
        add(partition.ends);
      }
      for (int rounds = 1; rounds <= 4; ++rounds) {
        add(balanced_partition(problem, blocks_, problem.devices * rounds));
      }
    }
    add(finest_partition(chain_));
    return result;
  }

  const PlanQuestion& question_;
  const Chain& chain_;
  StreamSearch search_;
  const std::vector<std::optional<int>> roots_;
  std::vector<BlockCosts> blocks_;
};

// Whether backward may run twice, so that no sum has to wait for the norm.
bool may_take_norm_first(const PlanQuestion& question) {
  const ActivationRule rule = question.options.activations;
  return question.clips && question.mode == PlanMode::train &&
         Passes(question).has(pass_name::kNormFirst) &&
         (rule == ActivationRule::automatic || rule == ActivationRule::recompute);
}

Micros step_of(const PlanQuestion& question, const StrategyAnswer& answer) {
  const auto* const found = std::get_if<StrategyPlan>(&answer);
  return found == nullptr ? kNever : expected_step(question, *found);
}

// To which slower plans than that are of no use.
PlanQuestion asking_faster(PlanQuestion question, Micros step) {
  question.faster_than = std::min(step, question.faster_than.value_or(step));
  return question;
}

// The faster one, or of two shortages the one of which less is lacking; of equals the first.
StrategyAnswer better_of(const PlanQuestion& question, StrategyAnswer one, StrategyAnswer other) {
  const auto* const lacking = std::get_if<Shortage>(&one);
  const auto* const lacks_other = std::get_if<Shortage>(&other);
  const bool takes_other = lacking != nullptr && lacks_other != nullptr
                               ? lacks_other->missing() < lacking->missing()
                               : step_of(question, other) < step_of(question, one);
  return takes_other ? std::move(other) : std::move(one);
}

// What `begun` begins, where that is faster.
StrategyPlan faster_of(StrategyPlan found, const PlanQuestion& question, const Chain& chain,
                       const std::function<bool(MobiusSearch&)>& begun) {
  const Micros step = expected_step(question, found);
  const PlanQuestion way = asking_faster(question, step);
  MobiusSearch other(way, chain);
  if (!begun(other)) return found;
  StrategyPlan second = other.run();
  return expected_step(question, second) < step ? std::move(second) : std::move(found);
}

// A climb goes on from the stages that are the fastest on its lower rungs, and leaves them only for
// far better ones. Of a small step on several devices it may end far from what it finds with others
// alone. (Of four larger ones none got shorter by more than 0.1 %, in up to three times the time.)
StrategyPlan with_layers_as_stages(StrategyPlan found, const PlanQuestion& way,
                                   const Chain& chain) {
  for (const int first : {1, 2}) {
    const std::vector<int> ends = layer_ends(chain, first);
    PlanQuestion fixed = way;
    fixed.options.stages.emplace(ends.size());
    std::adjacent_difference(ends.begin(), ends.end(), fixed.options.stages->begin());
    found = faster_of(std::move(found), fixed, chain,
                      [](MobiusSearch& other) { return !other.start(); });
  }
  return found;
}

// Where DRAM is short sums may lie where inputs were. That lets in more schedules while the climb
// is low, so it may end elsewhere, and a search without it may be better. And so may one that
// begins with less on the drives. Where these begin does not depend on the devices' memory. The
// largest plans have no such search.
StrategyPlan plan_from(MobiusSearch& search, const PlanQuestion& way, const Chain& chain) {
  constexpr std::array kOnDrives = {0.5, 0.25, 0.125};
  StrategyPlan found = search.run();
  if (way.any_plan) return found;
  const bool takes_turns = way.machine.devices.size() > 1 && way.mode == PlanMode::train;
  if (takes_turns && !way.options.stages && is_small_step(way, chain)) {
    found = with_layers_as_stages(std::move(found), way, chain);
  }
  if (!search.is_short_of_dram() || search.tires_at_once()) return found;
  if (sums_wait(way)) {
    PlanQuestion apart = way;
    apart.shares_dram = false;
    return faster_of(std::move(found), std::move(apart), chain,
                     [](MobiusSearch& other) { return !other.start(); });
  }
  if (!has_drives(way.machine)) return found;
  for (const double share : kOnDrives) {
    found = faster_of(std::move(found), way, chain, [&](MobiusSearch& other) {
      return !other.start() && other.rest_less_on_drives(share);
    });
  }
  return found;
}

// `search`, of `way`, has not begun.
StrategyAnswer answer_of(MobiusSearch& search, const PlanQuestion& way, const Chain& chain) {
  if (auto lacking = search.start()) return std::move(*lacking);
  return plan_from(search, way, chain);
}

// Inputs that rest on drives need none; and what drives are there for is planned without them, too.
bool may_take_rounds(const PlanQuestion& question) {
  return question.mode == PlanMode::train && !question.norm_first &&
         !has_drives(question.machine) && Passes(question).has(pass_name::kRounds);
}

PlanQuestion with_rounds(PlanQuestion question, int rounds) {
  question.rounds = rounds;
  return question;
}

// The fastest in any number of rounds. With one, sums need not be there beside all inputs, so the
// inputs of other rounds have to take more than sums do. Which are tried depends on no memory but
// that they fit: with more of it as much is tried. Rounds that the links hold up are tried where
// nothing else fits, or a faster device would need more memory. Of what never fits, that is lacking
// which is with the most rounds. Where plans are large coarse steps show which may be the fastest,
// and few are searched, unless nothing can be noticeably faster: those, and the fewest that have no
// coarse step.
class AnyRounds {
 public:
  AnyRounds(const PlanQuestion& question, const Chain& chain)
      : question_(question), chain_(chain), at_once_(question, chain) {}

  StrategyAnswer run() {
    answer_ = answer_of(at_once_, question_, chain_);
    if (is_enough() || !may_take_rounds(question_)) return std::move(answer_);
    near_bound_ = bound_of_one_way(question_, chain_) * kNearBound;
    const int hidden = most_rounds_hidden(question_, chain_);
    for (const int rounds : round_counts(hidden)) {
      if (are_of_use(rounds) && may_fit(rounds)) try_rounds(rounds);
      if (seen_is_enough_ || is_enough()) break;
    }
    if (!is_found()) try_more_rounds_than(hidden);
    const Micros fastest = step();
    for (const Seen& seen : seen_) {
      if (seen.step <= fastest * seen.may_be_off) search_with(seen.rounds);
    }
    if (fewest_unseen_) search_with(*fewest_unseen_);
    if (fastest_seen_ && fastest_seen_->draft.step() <= step_of(question_, answer_)) {
      take(fastest_seen_->search.answer(fastest_seen_->draft));
    }
    return std::move(answer_);
  }

 private:
  static constexpr double kNearBound = 1.001;
  // What a coarse step shows may be so much longer than what a search finds; and where so much more
  // is seen with more rounds, even more take longer.
  static constexpr double kMayBeOff = 1.1;

  /// With a coarse step.
  struct Seen {
    int rounds;
    Micros step;
    double may_be_off;  // 0: plans are too large to be searched
  };

  /// That is written in full once no other is faster.
  struct SeenPlan {
    SeenPlan(PlanQuestion asked, const Chain& chain) : way(std::move(asked)), search(way, chain) {}
    const PlanQuestion way;
    MobiusSearch search;
    StreamDraft draft = {};
  };

  bool is_found() const {
    return fastest_seen_ != nullptr || std::holds_alternative<StrategyPlan>(answer_);
  }

  bool is_enough() const { return question_.any_plan && is_found(); }

  Micros step() const {
    const Micros found = step_of(question_, answer_);
    return fastest_seen_ ? std::min(found, fastest_seen_->draft.step()) : found;
  }

  void take(StrategyAnswer other) {
    answer_ = better_of(question_, std::move(answer_), std::move(other));
  }

  Bytes inputs_of_others(int rounds) const {
    const Bytes inputs = at_once_.need_of_dram().inputs;
    return inputs - Bytes{inputs.count / rounds};
  }

  bool are_of_use(int rounds) const {
    Bytes sums;
    for (const ChainBlock& block : chain_.blocks) sums += block.gradients;
    return inputs_of_others(rounds) > sums;
  }

  bool may_fit(int rounds) const {
    Bytes room = host_limit(question_);
    for (int d = 0; d < static_cast<int>(question_.machine.devices.size()); ++d) {
      room += device_limit(question_, d);
    }
    return at_once_.need_of_dram().all - inputs_of_others(rounds) <= room;
  }

  PlanQuestion way_with(int rounds) const {
    return asking_faster(with_rounds(question_, rounds), step());
  }

  void try_rounds(int rounds) {
    auto here = std::make_unique<SeenPlan>(way_with(rounds), chain_);
    MobiusSearch& search = here->search;
    if (auto lacking = search.start()) {
      take(std::move(*lacking));
    } else if (question_.any_plan) {
      take(search.run());
    } else if (auto seen = search.run_coarse()) {
      const Micros time = seen->step();
      const double may_be_off = search.has_large_plans() ? 1 : kMayBeOff;
      seen_.push_back({rounds, time, search.tires_at_once() ? 0 : may_be_off});
      if (time < step()) {
        here->draft = std::move(*seen);
        fastest_seen_ = std::move(here);
      }
      seen_is_enough_ = time > least_seen_ * kMayBeOff || step() <= near_bound_;
      least_seen_ = std::min(least_seen_, time);
    } else if (!search.has_large_plans()) {
      take(plan_from(search, here->way, chain_));
    } else if (!fewest_unseen_) {
      fewest_unseen_ = rounds;
    }
  }

  /// The links hold these up: for what fits in no other way, the first that does.
  void try_more_rounds_than(int hidden) {
    const int most = question_.micro_batches;
    for (const int rounds : round_counts(most)) {
      if (rounds <= hidden && rounds < most) continue;
      if (are_of_use(rounds) && (may_fit(rounds) || rounds == most)) try_rounds(rounds);
      if (is_found()) break;
    }
  }

  void search_with(int rounds) {
    if (step() <= near_bound_) return;
    const PlanQuestion way = way_with(rounds);
    MobiusSearch search(way, chain_);
    take(answer_of(search, way, chain_));
  }

  const PlanQuestion& question_;
  const Chain& chain_;
  MobiusSearch at_once_;
  StrategyAnswer answer_;
  Micros near_bound_;
  std::vector<Seen> seen_;
  Micros least_seen_ = kNever;
  std::unique_ptr<SeenPlan> fastest_seen_;  // of all that was found then; not yet in answer_
  bool seen_is_enough_ = false;
  std::optional<int> fewest_unseen_;  // of the largest plans
};

}  // namespace

// Two ways to clip are searched: first the one that could be the faster; then the other, unless it
// cannot be.
StrategyAnswer plan_mobius(const PlanQuestion& question, const Chain& chain) {
  if (!may_take_norm_first(question)) return AnyRounds(question, chain).run();
  std::array<PlanQuestion, 2> ways = {question, with_norm_first(question)};
  std::array<Micros, 2> bounds;
  for (std::size_t w = 0; w < ways.size(); ++w) bounds[w] = bound_of_one_way(ways[w], chain);
  const std::size_t likely = bounds[1] < bounds[0] ? 1 : 0;
  const std::size_t other = 1 - likely;
  StrategyAnswer answer = AnyRounds(ways[likely], chain).run();
  const Micros step = step_of(question, answer);
  if (step < kNever && (question.any_plan || bounds[other] >= step)) return answer;
  const PlanQuestion way = asking_faster(std::move(ways[other]), step);
  return better_of(question, std::move(answer), AnyRounds(way, chain).run());
}

}  // namespace ferry
