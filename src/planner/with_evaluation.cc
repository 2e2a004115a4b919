#include "planner/with_evaluation.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "planner/costs/chain.h"
#include "planner/costs/queues.h"
#include "planner/strategies/strategies.h"
#include "planner/write/edges.h"
#include "planner/write/evaluation_schedule.h"
#include "planner/write/stream_plan.h"

namespace ferry {
namespace {

// Memory that goes from one plan to the other may move a few slots; then it is weighed again.
constexpr int kRounds = 6;

/// The devices of a plan, in the machine's order.
std::vector<PlaceId> devices_of(const Plan& plan) {
  std::vector<PlaceId> devices;
  for (const PlaceId id : plan.places.ids()) {
    if (plan.places[id].kind == PlaceKind::device) devices.push_back(id);
  }
  return devices;
}

/// A plan that rests values on devices or drives. Evaluation has to find them there.
bool rests_beyond_host(const Plan& training) {
  const bool drives = std::ranges::count(training.places, PlaceKind::drive, &Place::kind) > 0;
  return drives || std::ranges::any_of(training.instances, [&](const Instance& instance) {
           return instance.home && training.places[instance.place].kind == PlaceKind::device;
         });
}

/// A shorter ring, or less room for weights that pass from drives; false: there is no less.
bool takes_less(StreamSchedule& schedule, PlaceKind lacking) {
  if (lacking == PlaceKind::host && schedule.staging.weights > kLeastStaging.weights) {
    --schedule.staging.weights;
    return true;
  }
  if (schedule.activation_slots == kLeastActivationSlots) return false;
  schedule.activation_slots = std::max(kLeastActivationSlots, schedule.activation_slots / 2);
  schedule.token_slots = std::min(schedule.token_slots, schedule.activation_slots);
  return true;
}

/// In training's visits, with everything where it rests then, and rings as long as fit.
StrategyAnswer evaluate_at_home(const PlanQuestion& question, const Plan& training) {
  const Chain chain = make_chain(question);
  StreamSchedule schedule = evaluation_schedule(training);
  schedule.token_slots = question.micro_batches;
  schedule.activation_slots =
      kLeastActivationSlots + static_cast<int>(chain.size()) * question.micro_batches;
  while (true) {
    Plan plan = write_stream_plan(question, chain, schedule);
    std::vector<Shortage> lacking = shortages(plan);
    if (lacking.empty()) {
      order_accesses(plan);
      Simulation prediction = simulate(plan);
      return StrategyPlan{std::move(plan), std::move(prediction), "as training has it at home"};
    }
    if (!takes_less(schedule, lacking.front().kind)) return std::move(lacking.front());
  }
}

class InTurn {
 public:
  InTurn(const Strategy& strategy, const PlanQuestion& question)
      : strategy_(strategy), question_(question) {
    const int devices = static_cast<int>(question.machine.devices.size());
    for (int d = 0; d < devices; ++d) budgets_.push_back(device_budget(question, d));
    lent_to_training_.resize(budgets_.size());
    lent_to_evaluation_.resize(budgets_.size());
  }

  std::variant<PlansInTurn, Shortage> run(StrategyPlan training) {
    for (int round = 0; round < kRounds; ++round) {
      auto evaluation = evaluate(training.plan);
      auto* lacking = std::get_if<Shortage>(&evaluation);
      if (lacking == nullptr) {
        Plan& other = std::get<Plan>(evaluation);
        if (weigh(training.plan, other)) return PlansInTurn{std::move(training), std::move(other)};
        if (!training_is_too_large_) continue;
      } else if (!make_room(training.plan, *lacking)) {
        return std::move(*lacking);
      }
      StrategyAnswer again = train();
      if (auto* still = std::get_if<Shortage>(&again)) return std::move(*still);
      training = std::get<StrategyPlan>(std::move(again));
    }
    return std::move(*lacking_);
  }

  std::variant<Plan, Shortage> run_beside(Plan training) {
    for (int round = 0; round < kRounds; ++round) {
      auto evaluation = evaluate(training);
      if (auto* lacking = std::get_if<Shortage>(&evaluation)) return std::move(*lacking);
      Plan& other = std::get<Plan>(evaluation);
      if (weigh(training, other)) return std::move(other);
      if (training_is_too_large_) break;
    }
    return std::move(*lacking_);
  }

 private:
  /// The question with less of each device, by what the other plan's kernels need more.
  PlanQuestion within(const std::vector<Bytes>& lent) const {
    PlanQuestion question = question_;
    question.device_budgets = budgets_;
    for (std::size_t d = 0; d < lent.size(); ++d) question.device_budgets[d].bytes -= lent[d];
    return question;
  }

  StrategyAnswer train() const {
    StrategyAnswer answer = ask(within(lent_to_evaluation_));
    if (auto* lacking = std::get_if<Shortage>(&answer)) blame(lent_to_evaluation_, *lacking);
    return answer;
  }

  std::variant<Plan, Shortage> evaluate(const Plan& training) const {
    PlanQuestion question = within(lent_to_training_);
    question.mode = PlanMode::evaluate;
    question.faster_than.reset();
    StrategyAnswer answer = evaluate_with(question, training);
    if (auto* lacking = std::get_if<Shortage>(&answer)) {
      blame(lent_to_training_, *lacking);
      return std::move(*lacking);
    }
    return std::move(std::get<StrategyPlan>(answer).plan);
  }

  /// Where all rests in DRAM any visits will do; but where they lack room, training's may not,
  /// which pass in rounds.
  StrategyAnswer evaluate_with(const PlanQuestion& question, const Plan& training) const {
    if (!rests_beyond_host(training)) {
      StrategyAnswer answer = ask(question);
      if (std::holds_alternative<StrategyPlan>(answer)) return answer;
    }
    return evaluate_at_home(question, training);
  }

  StrategyAnswer ask(const PlanQuestion& question) const {
    return strategy_.plan(question, make_chain(question));
  }

  /// What training has at home on a device is evaluation's too: less of it, where that is what
  /// evaluation lacks.
  bool make_room(const Plan& training, const Shortage& lacking) {
    if (!rests_beyond_host(training)) return false;
    const auto device =
        std::ranges::find(question_.machine.devices, lacking.place, &MachineDevice::name);
    if (device == question_.machine.devices.end()) return false;
    lent_to_evaluation_[device - question_.machine.devices.begin()] += lacking.missing();
    lacking_ = lacking;
    return true;
  }

  /// What a place lacks counts from its whole budget.
  void blame(const std::vector<Bytes>& lent, Shortage& lacking) const {
    for (std::size_t d = 0; d < lent.size(); ++d) {
      if (question_.machine.devices[d].name != lacking.place || lent[d] == Bytes{}) continue;
      lacking.need += lent[d];
      lacking.have += lent[d];
      lacking.breakdown.emplace_back("workspace of training or evaluation, the larger", lent[d]);
    }
  }

  /// Gives both plans their workspaces and whole budgets when they fit together. Else lends to
  /// either plan's kernels what the other's slots take too much.
  bool weigh(Plan& training, Plan& evaluation) {
    bool fits = true;
    training_is_too_large_ = false;
    const std::vector<PlaceId> devices = devices_of(training);
    for (std::size_t d = 0; d < devices.size(); ++d) {
      const PlaceId id = devices[d];
      Bytes& workspace = training.places[id].workspace;
      const Bytes of_evaluations = evaluation.places[id].workspace;
      workspace = evaluation.places[id].workspace =
          std::max(workspace, evaluation.places[id].workspace);
      const Bytes budget = device_limit(question_, static_cast<int>(d));
      training.places[id].budget = evaluation.places[id].budget = budget;
      const std::array<const Plan*, 2> both = {&training, &evaluation};
      const Bytes need = peak_bytes(both, id);
      if (need <= budget) continue;
      fits = false;
      lacking_ = Shortage{training.places[id].name, PlaceKind::device, need, budget, {}};
      const Bytes of_training = peak_bytes(training, id) - budget;
      const Bytes of_evaluation = peak_bytes(evaluation, id) - budget;
      training_is_too_large_ = training_is_too_large_ || of_training > Bytes{};
      lent_to_evaluation_[d] += std::max(Bytes{}, of_training);
      if (of_evaluation <= Bytes{}) continue;
      // Evaluation was planned with its own workspace: less by the difference leaves room for both.
      Bytes& lent = lent_to_training_[d];
      lent = std::max(lent + of_evaluation, workspace - of_evaluations);
    }
    return fits;
  }

  const Strategy& strategy_;
  const PlanQuestion& question_;
  std::vector<Budget> budgets_;          // of devices, whole
  std::vector<Bytes> lent_to_training_;  // which evaluation therefore leaves
  std::vector<Bytes> lent_to_evaluation_;
  bool training_is_too_large_ = false;
  std::optional<Shortage> lacking_;
};

}  // namespace

std::variant<PlansInTurn, Shortage> plan_in_turn(const Strategy& strategy,
                                                 const PlanQuestion& question,
                                                 StrategyPlan training) {
  return InTurn(strategy, question).run(std::move(training));
}

std::variant<Plan, Shortage> plan_evaluation(const PlanQuestion& question, const Plan& training) {
  PlanQuestion within = question;
  within.strategy = training.strategy;
  within.device_budgets.clear();
  for (const PlaceId id : devices_of(training)) {
    within.device_budgets.push_back({training.places[id].budget, "the plan"});
  }
  const auto host = std::ranges::find(training.places, PlaceKind::host, &Place::kind);
  if (host != training.places.end()) within.host_budget = host->budget;
  const auto strategy = std::ranges::find(strategies(), training.strategy, &Strategy::name);
  if (strategy == strategies().end()) {
    throw UserError("strategy '" + training.strategy + "' of the plan cannot evaluate; " +
                    "set train.eval_every: 0");
  }
  return InTurn(*strategy, within).run_beside(training);
}

}  // namespace ferry
