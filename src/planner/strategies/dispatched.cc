// Strategies that give stages to devices in turn, or to every device: harmony-pp, harmony-dp,
// roundpipe, zero, and fuyou with its ablations. They differ in their visits (dispatch.h); states
// rest where homes.h puts them.
#include "planner/strategies/dispatched.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

#include "planner/cuts/asked_stages.h"
#include "planner/cuts/contiguous.h"
#include "planner/strategies/dispatch.h"
#include "planner/strategies/streaming.h"
#include "spec/strategy_names.h"

namespace ferry {
namespace {

constexpr std::array kStagesPerDevice = {1, 2, 3, 4, 6};  // backward stages, of each device

int device_count(const PlanQuestion& question) {
  return static_cast<int>(question.machine.devices.size());
}

// RoundPipe's M_R: what the job asks for, else all micro-batches in one round.
int round_of(const PlanQuestion& question) {
  const int asked = question.options.round;
  return asked > 0 ? std::min(asked, question.micro_batches) : question.micro_batches;
}

// In two rounds, unless the job asks for a length; as long as that when it is of no use.
int shorter_round(const PlanQuestion& question) {
  if (question.options.round > 0) return round_of(question);
  const int half = (question.micro_batches + 1) / 2;
  return std::min(std::max(device_count(question), half), question.micro_batches);
}

class Dispatched {
 public:
  Dispatched(const PlanQuestion& question, const Chain& chain, std::string name)
      : question_(question), chain_(chain), name_(std::move(name)), search_(question, chain) {
    for (const ChainBlock& block : chain.blocks) {
      forward_.push_back(has_forward(block) ? block.forward.count : 0.0);
      backward_.push_back(block.backward.count);
    }
  }
  virtual ~Dispatched() = default;

  StrategyAnswer run() {
    const Packs least_memory = are_given() ? given_packs() : finest_packs();
    if (auto lacking = search_.start(schedule(least_memory))) return *lacking;
    const StreamDraft draft = search_.climb({[&] {
      std::vector<StreamSchedule> schedules;
      for (const Packs& packs : candidates()) {
        for (std::vector<StageVisit>& visits : visits_to_try(packs)) {
          schedules.push_back(schedule_of(std::move(visits)));
        }
      }
      search_.offer(std::move(schedules));
      return false;
    }});
    return search_.answer(draft, std::to_string(stage_count(draft.schedule)) + " stages");
  }

 protected:
  bool train() const { return question_.mode == PlanMode::train; }
  int micro_batches() const { return question_.micro_batches; }
  virtual int devices() const { return device_count(question_); }

  virtual std::vector<StageVisit> visits(const Packs& packs) const = 0;
  virtual void adjust(StreamSchedule& /*schedule*/) const {}
  virtual std::vector<std::vector<StageVisit>> visits_to_try(const Packs& packs) const {
    return {visits(packs)};
  }

  StreamSchedule schedule(const Packs& packs) const { return schedule_of(visits(packs)); }

  StreamSchedule schedule_of(std::vector<StageVisit> visits) const {
    StreamSchedule schedule;
    schedule.strategy = name_;
    schedule.devices = devices();
    schedule.visits = std::move(visits);
    adjust(schedule);
    return schedule;
  }

  StreamSearch& search() { return search_; }

  Packs finest_packs() const {
    Packs packs;
    packs.backward = finest_partition(chain_);
    packs.forward = packs.backward;
    packs.forward.pop_back();
    return packs;
  }

  /// Backward cut evenly into a few multiples of the devices, forward into as many stages, or as
  /// many fewer as it is shorter (RoundPipe, asymmetric partition); the finest cut of both.
  std::vector<Packs> candidates() const {
    if (are_given()) return {given_packs()};
    std::vector<Packs> result;
    const auto add = [&](Packs packs) {
      if (std::find(result.begin(), result.end(), packs) == result.end()) {
        result.push_back(std::move(packs));
      }
    };
    const auto blocks = static_cast<int>(chain_.size());
    for (const int per_device : kStagesPerDevice) {
      const int stages = per_device * devices();
      if (stages > blocks) break;
      const std::vector<int> backward = packed_cuts(backward_, stages, PackFill::to_heaviest);
      const auto before_last = backward.size() > 1 ? backward[backward.size() - 2] : 0;
      for (const int share : {1, 3}) {
        Packs packs{{}, backward};
        if (before_last > 0) {
          const std::vector<double> costs(forward_.begin(), forward_.begin() + before_last);
          packs.forward =
              packed_cuts(costs, std::max(1, (stages + share - 1) / share), PackFill::to_heaviest);
        }
        add(std::move(packs));
      }
    }
    add(finest_packs());
    return result;
  }

  bool are_given() const { return question_.options.stages || question_.options.backward_stages; }

  Packs given_packs() const {
    const auto& stages = question_.options.stages;
    const auto& backward_stages = question_.options.backward_stages;
    const auto blocks = static_cast<int>(chain_.size());
    Packs packs;
    packs.backward = backward_stages ? ends_of(*backward_stages, blocks, "plan.backward_stages")
                                     : *asked_ends(question_, blocks);
    const int before_last =
        packs.backward.size() > 1 ? packs.backward[packs.backward.size() - 2] : 0;
    if (stages) {
      const int covered = std::min(blocks, std::accumulate(stages->begin(), stages->end(), 0));
      packs.forward = ends_of(*stages, covered, "plan.stages");
    }
    // The last backward stage runs forward too.
    while (!packs.forward.empty() && packs.forward.back() > before_last) packs.forward.pop_back();
    if (before_last > 0 && (packs.forward.empty() || packs.forward.back() < before_last)) {
      packs.forward.push_back(before_last);
    }
    return packs;
  }

 private:
  static std::ptrdiff_t stage_count(const StreamSchedule& schedule) {
    return std::ranges::count_if(schedule.visits,
                                 [](const StageVisit& visit) { return visit.first_batch == 0; });
  }

  const PlanQuestion& question_;
  const Chain& chain_;
  const std::string name_;
  StreamSearch search_;
  std::vector<double> forward_;
  std::vector<double> backward_;
};

class HarmonyPipeline final : public Dispatched {
 public:
  HarmonyPipeline(const PlanQuestion& question, const Chain& chain)
      : Dispatched(question, chain, strategy_name::kHarmonyPp) {}

 private:
  std::vector<StageVisit> visits(const Packs& packs) const override {
    return dispatch(packs, devices(), micro_batches(), micro_batches(), train());
  }
};

class HarmonyReplicas final : public Dispatched {
 public:
  HarmonyReplicas(const PlanQuestion& question, const Chain& chain)
      : Dispatched(question, chain, strategy_name::kHarmonyDp) {}

 private:
  std::vector<StageVisit> visits(const Packs& packs) const override {
    return replicate(packs, devices(), micro_batches(), train());
  }
};

// Rounds of M_R micro-batches. In one round RoundPipe's dispatch is Harmony's pipeline.
class RoundPipe final : public Dispatched {
 public:
  RoundPipe(const PlanQuestion& question, const Chain& chain)
      : Dispatched(question, chain, strategy_name::kRoundPipe),
        round_(round_of(question)),
        shorter_(shorter_round(question)) {}

 private:
  std::vector<StageVisit> visits(const Packs& packs) const override {
    return dispatch(packs, devices(), micro_batches(), round_, train());
  }

  std::vector<std::vector<StageVisit>> visits_to_try(const Packs& packs) const override {
    if (shorter_ == round_) return {visits(packs)};
    return {visits(packs), dispatch(packs, devices(), micro_batches(), shorter_, train())};
  }

  const int round_;
  const int shorter_;
};

class Zero final : public Dispatched {
 public:
  Zero(const PlanQuestion& question, const Chain& chain)
      : Dispatched(question, chain, strategy_name::kZero) {}

 private:
  std::vector<StageVisit> visits(const Packs& packs) const override {
    return horizontal(packs.backward, devices(), micro_batches(), train());
  }
  void adjust(StreamSchedule& schedule) const override { schedule.updates_at_end = true; }
};

// One device, vertical micro-batches. Ablations: `serial` updates after backward, and in both a
// group's read, update and write follow each other, since one staging slot is all they have.
class Fuyou final : public Dispatched {
 public:
  enum class Form { serial, naive, delayed };
  Fuyou(const PlanQuestion& question, const Chain& chain, Form form, const char* name)
      : Dispatched(question, chain, name), form_(form) {}

 private:
  int devices() const override { return 1; }
  std::vector<StageVisit> visits(const Packs& packs) const override {
    return dispatch(packs, 1, micro_batches(), micro_batches(), train());
  }
  void adjust(StreamSchedule& schedule) const override {
    schedule.updates_at_end = form_ == Form::serial;
    if (form_ != Form::delayed) schedule.staging = kLeastStaging;
  }

  const Form form_;
};

}  // namespace

StrategyAnswer plan_harmony_pp(const PlanQuestion& question, const Chain& chain) {
  return HarmonyPipeline(question, chain).run();
}

StrategyAnswer plan_harmony_dp(const PlanQuestion& question, const Chain& chain) {
  return HarmonyReplicas(question, chain).run();
}

StrategyAnswer plan_roundpipe(const PlanQuestion& question, const Chain& chain) {
  return RoundPipe(question, chain).run();
}

StrategyAnswer plan_zero(const PlanQuestion& question, const Chain& chain) {
  return Zero(question, chain).run();
}

StrategyAnswer plan_fuyou(const PlanQuestion& question, const Chain& chain) {
  return Fuyou(question, chain, Fuyou::Form::delayed, strategy_name::kFuyou).run();
}

StrategyAnswer plan_fuyou_naive(const PlanQuestion& question, const Chain& chain) {
  return Fuyou(question, chain, Fuyou::Form::naive, strategy_name::kFuyouNaive).run();
}

StrategyAnswer plan_fuyou_serial(const PlanQuestion& question, const Chain& chain) {
  return Fuyou(question, chain, Fuyou::Form::serial, strategy_name::kFuyouSerial).run();
}

// RoundPipe in one round.
const char* same_as_harmony_pp(const PlanQuestion& question) {
  return shorter_round(question) == question.micro_batches ? strategy_name::kRoundPipe : nullptr;
}

// All micro-batches of a stage at once on the one device there is.
const char* harmony_pp_on_one_device(const PlanQuestion& question) {
  return device_count(question) == 1 ? strategy_name::kHarmonyPp : nullptr;
}

// Its one staging slot is of values that pass between drives and DRAM.
const char* same_as_fuyou_naive(const PlanQuestion& question) {
  return question.machine.drives.empty() ? strategy_name::kFuyou : nullptr;
}

// With clipping all updates wait for the end of backward, and evaluation has none.
const char* same_as_fuyou_serial(const PlanQuestion& question) {
  const bool at_end = question.clips || question.mode != PlanMode::train;
  return at_end ? strategy_name::kFuyouNaive : nullptr;
}

}  // namespace ferry
