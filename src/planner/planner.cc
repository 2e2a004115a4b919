#include "planner/planner.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/side_by_side.h"
#include "plan/verify.h"
#include "planner/answer.h"
#include "planner/costs/bounds.h"
#include "planner/costs/chain.h"
#include "planner/costs/estimate.h"
#include "planner/costs/queues.h"
#include "planner/fewer_devices.h"
#include "planner/remedies.h"
#include "planner/split_memory.h"
#include "planner/strategies/passes.h"
#include "planner/strategies/strategies.h"
#include "planner/with_evaluation.h"
#include "spec/strategy_names.h"

namespace ferry {
namespace {

// Less is rounding: of such plans the one of the strategy with less traffic is taken.
constexpr double kNoticeable = 1e-9;

// The strategies that the question lets take part.
std::vector<const Strategy*> asked_strategies(const PlanQuestion& question) {
  std::vector<const Strategy*> result;
  std::string names;
  for (const Strategy& strategy : strategies()) {
    names += std::string(names.empty() ? "" : ", ") + strategy.name;
    const bool asked = question.strategy == strategy.name;
    if (asked || question.strategy == strategy_name::kAuto) result.push_back(&strategy);
  }
  if (!result.empty()) return result;
  throw JobKeyError("strategy", "'" + question.strategy +
                                    "' has no plan of its own; expected auto or one of " + names);
}

/// A plan that breaks a rule is a fault of ours.
void check_verified(const Plan& plan) {
  const std::optional<Violation> violation = verify(plan);
  FERRY_CHECK(!violation, violation ? violation->message : std::string());
}

constexpr std::size_t kMostBlocks = 2500;

// A plan's times end at 1e15 us (plan/well_formed.h); none is a sum of ten of these.
constexpr Micros kLongestTask{1e14};

void check_size(const PlanQuestion& question, const Chain& chain) {
  const std::size_t blocks = chain.size();
  if (blocks > kMostBlocks) {
    throw UserError("a chain of " + std::to_string(blocks) + " blocks; a plan has at most " +
                    std::to_string(kMostBlocks));
  }
  const auto micro_batches = static_cast<std::size_t>(question.micro_batches);
  if (blocks * micro_batches > kMostPasses) {
    throw JobKeyError("train.micro_batches",
                      std::to_string(micro_batches) + " micro-batches through " +
                          std::to_string(blocks) + " blocks; a plan has at most " +
                          std::to_string(kMostPasses / blocks) +
                          " of them here\n  try: fewer, with a larger train.micro_batch_size");
  }
}

void check_times(const PlanQuestion& question, const Chain& chain) {
  for (const BlockId b : chain.blocks.ids()) {
    const ChainBlock& block = chain.blocks[b];
    for (const Micros time : {block.forward, block.backward, block.saving_forward,
                              block.saved_backward, block.host_update, block.device_update}) {
      if (time <= kLongestTask) continue;
      throw UserError("a task of block " + to_string(b) + " would take " + to_string(time) +
                      "; a plan's take at most " + to_string(kLongestTask) +
                      ": correct the rates of " + question.machine.source.text +
                      " or the times of profile '" + question.profile.name + "'");
    }
  }
}

std::string lack_text(const Shortage& lacking) {
  return lacking.place + " needs " + to_string(lacking.need) + ", has " + to_string(lacking.have);
}

// The winner first, then those that fit, the fastest first.
void sort_candidates(std::vector<Candidate>& candidates, const std::string& winner) {
  const auto rank = [&](const Candidate& candidate) {
    return std::tuple(candidate.strategy != winner, !candidate.fits, candidate.step.count);
  };
  std::ranges::stable_sort(candidates, {}, rank);
}

// Collects the strategies' answers and keeps the best.
class StrategySearch {
 public:
  /// `what` the listener hears of.
  StrategySearch(const PlanQuestion& question, std::string what)
      : question_(question), chain_(make_chain(question)), what_(std::move(what)) {}

  AnswerWithoutRemedies run(PhaseListener& listener) {
    std::vector<const Strategy*> asked = asked_strategies(question_);
    Progress progress{what_, 0, std::ssize(asked), "strategies"};
    // What the one that is the fastest as a rule finds spares those behind it most of their search,
    // and what they find spares each other little: they are searched side by side.
    auto behind = std::ranges::find(asked, std::string(strategy_name::kMobius), &Strategy::name);
    if (behind != asked.end()) {
      if (question_.any_plan) {
        std::rotate(asked.begin(), behind, behind + 1);
        behind = asked.begin();
      }
      ++behind;
    }
    for (auto one = asked.begin(); one != behind; ++one) {
      progress.part = (*one)->name;
      listener.progress(progress);
      Trial trial = trial_of(**one);
      trial.answer = trial.strategy->plan(trial.question, chain_);
      take(std::move(trial));
      ++progress.done;
    }
    const bool is_enough = question_.any_plan && best_.has_value();
    if (!is_enough) search_side_by_side({behind, asked.end()}, progress, listener);
    progress.done = progress.total;
    progress.part.clear();
    listener.progress(progress);
    if (!best_) return std::move(*lacking_);
    sort_candidates(candidates_, winner_);
    return Planned{.plan = std::move(best_->plan),
                   .evaluation = std::move(evaluation_),
                   .report = std::move(best_->report),
                   .prediction = std::move(best_->prediction),
                   .lower_bound = lower_bound(question_, chain_),
                   .candidates = std::move(candidates_),
                   .expected = expected(*best_),
                   .clipped_step = best_->clipped_step};
  }

 private:
  struct Trial {
    const Strategy* strategy;
    PlanQuestion question;
    std::optional<StrategyAnswer> answer = {};  // none: it is that of another strategy
  };

  Trial trial_of(const Strategy& strategy) const {
    Trial trial{.strategy = &strategy, .question = question_};
    if (best_) trial.question.faster_than = expected(*best_) * (1 - kNoticeable);
    return trial;
  }

  /// Those behind the fastest one, the last first: they take longest.
  void search_side_by_side(std::span<const Strategy* const> asked, Progress progress,
                           PhaseListener& listener) {
    std::vector<Trial> trials;
    for (const Strategy* strategy : asked) trials.push_back(trial_of(*strategy));
    std::ranges::reverse(trials);
    std::vector<std::function<void()>> works;
    for (Trial& trial : trials) {
      works.emplace_back([this, &trial] {
        if (same_as(*trial.strategy) != nullptr) return;
        trial.answer = trial.strategy->plan(trial.question, chain_);
      });
    }
    const auto done_before = progress.done;
    side_by_side(works, [&](std::size_t work, std::size_t done) {
      progress.done = done_before + static_cast<std::ptrdiff_t>(done);
      progress.part = trials[work].strategy->name;
      listener.progress(progress);
    });
    std::ranges::reverse(trials);
    for (Trial& trial : trials) take(std::move(trial));
  }

  /// The strategy earlier in the table that has the same plans; or null.
  const char* same_as(const Strategy& strategy) const {
    return strategy.same_as ? strategy.same_as(question_) : nullptr;
  }

  void take(Trial trial) {
    const Strategy& strategy = *trial.strategy;
    if (!trial.answer) {
      const auto same = std::ranges::find(candidates_, same_as(strategy), &Candidate::strategy);
      FERRY_CHECK(same != candidates_.end(), "a strategy is compared with earlier ones");
      Candidate candidate = *same;
      candidate.strategy = strategy.name;
      candidate.passes.clear();  // none was run for it
      candidates_.push_back(std::move(candidate));
      return;
    }
    StrategyAnswer answer = std::move(*trial.answer);
    std::optional<Plan> evaluation;
    if (question_.evaluates) evaluation = add_evaluation(strategy, trial.question, answer);
    if (auto* lacking = std::get_if<Shortage>(&answer)) {
      candidates_.push_back({strategy.name, false, {}, {}, {}, lack_text(*lacking)});
      // The strategy that lacks least says what is missing.
      if (!lacking_ || lacking->missing() < lacking_->missing()) {
        lacking_ = std::move(*lacking);
      }
      return;
    }
    StrategyPlan planned = std::get<StrategyPlan>(std::move(answer));
    candidates_.push_back({strategy.name, true, expected(planned),
                           strategy.lower_bound(question_, chain_), planned.prediction.busiest_name,
                           planned.remark, std::move(planned.passes)});
    if (wins(planned)) {
      best_ = std::move(planned);
      evaluation_ = std::move(evaluation);
      winner_ = strategy.name;
    }
  }

  bool wins(const StrategyPlan& planned) const {
    return !best_ || expected(planned) < expected(*best_) * (1 - kNoticeable);
  }

  Micros expected(const StrategyPlan& planned) const { return expected_step(question_, planned); }

  /// Where the strategy's plan wins so far: the plan that evaluates beside it. `answer` is what the
  /// strategy answers then: its plan may have made room, or lack some.
  std::optional<Plan> add_evaluation(const Strategy& strategy, const PlanQuestion& question,
                                     StrategyAnswer& answer) const {
    auto* training = std::get_if<StrategyPlan>(&answer);
    if (training == nullptr || !wins(*training)) return std::nullopt;
    auto both = plan_in_turn(strategy, question, std::move(*training));
    if (auto* lacking = std::get_if<Shortage>(&both)) {
      answer = std::move(*lacking);
      return std::nullopt;
    }
    auto& [trains, evaluates] = std::get<PlansInTurn>(both);
    answer = std::move(trains);
    return std::move(evaluates);
  }

  const PlanQuestion& question_;
  const Chain chain_;
  const std::string what_;
  std::vector<Candidate> candidates_;
  std::optional<StrategyPlan> best_;
  std::optional<Plan> evaluation_;  // beside best_
  std::string winner_;
  std::optional<Shortage> lacking_;
};

/// Whether DRAM may be short, and yet DRAM and devices hold all that rests from step to step; and
/// nobody asked for drives. More memory of devices makes it no less so.
bool may_do_without_drives(const PlanQuestion& question, const Chain& chain) {
  const bool is_free =
      question.strategy == strategy_name::kAuto || question.strategy == strategy_name::kMobius;
  if (!is_free || question.options.activations == ActivationRule::swap_to_drive) return false;
  const Bytes host = host_limit(question);
  Bytes devices;
  for (int d = 0; d < static_cast<int>(question.machine.devices.size()); ++d) {
    devices += device_budget(question, d).bytes;
  }
  Bytes rests;
  Bytes passes;
  for (const ChainBlock& block : chain.blocks) {
    rests += block.weights + block.states;
    passes += block.gradients + chain.activation * question.micro_batches;
  }
  return rests + passes > host && rests <= host + devices;
}

/// Of each strategy the candidate that is faster, or fits at all. The first one stays the winner.
void take_faster(std::vector<Candidate>& candidates, const std::vector<Candidate>& others) {
  const std::string winner = candidates.front().strategy;
  for (Candidate& candidate : candidates) {
    const auto other = std::ranges::find(others, candidate.strategy, &Candidate::strategy);
    if (candidate.strategy == winner || other == others.end() || !other->fits) continue;
    if (!candidate.fits || other->step < candidate.step) candidate = *other;
  }
  sort_candidates(candidates, winner);
}

/// Takes what `find` answers to the other question where that is faster, or fits at all; returns
/// whether it does. Its lower bound is left to the caller.
template <typename Find>
bool take_if_faster(AnswerWithoutRemedies& answer, PlanQuestion other, const Find& find) {
  const auto* best = std::get_if<Planned>(&answer);
  if (best != nullptr) other.faster_than = best->expected * (1 - kNoticeable);
  AnswerWithoutRemedies found = find(other);
  auto* planned = std::get_if<Planned>(&found);
  if (planned == nullptr) return false;
  if (best != nullptr && planned->expected >= *other.faster_than) return false;
  if (best != nullptr) take_faster(planned->candidates, best->candidates);
  answer = std::move(found);
  return true;
}

/// Nothing better is asked for.
bool is_enough(const PlanQuestion& question, const AnswerWithoutRemedies& answer) {
  return question.any_plan && std::holds_alternative<Planned>(answer);
}

/// A drive hurts nobody: where DRAM is short, what it lacks may rest on devices in place of drives.
AnswerWithoutRemedies with_drives_or_without(const PlanQuestion& question,
                                             PhaseListener& listener) {
  AnswerWithoutRemedies answer = StrategySearch(question, "planning").run(listener);
  if (question.machine.drives.empty() || is_enough(question, answer)) return answer;
  const Chain chain = make_chain(question);
  if (!may_do_without_drives(question, chain)) return answer;
  PlanQuestion without = question;
  without.machine.drives.clear();
  const bool is_taken = take_if_faster(answer, std::move(without), [&](const PlanQuestion& asked) {
    return StrategySearch(asked, "planning without drives").run(listener);
  });
  if (is_taken) std::get<Planned>(answer).lower_bound = lower_bound(question, chain);
  return answer;
}

/// Whether a plan of the question could be noticeably faster.
bool may_be_faster(const PlanQuestion& question, Micros step) {
  return lower_bound(question, make_chain(question)) < step * (1 - kNoticeable);
}

/// Nor does a slow device, or a small one: it may be left out.
AnswerWithoutRemedies on_all_or_fewer_devices(const PlanQuestion& question,
                                              PhaseListener& listener) {
  AnswerWithoutRemedies answer = with_drives_or_without(question, listener);
  if (is_enough(question, answer)) return answer;
  std::vector<PlanQuestion> questions = on_fewer_devices(question);
  if (questions.empty()) return answer;
  ProgressCount count(listener, "planning with fewer devices", std::ssize(questions), "plans");
  for (PlanQuestion& fewer : questions) {
    const auto* best = std::get_if<Planned>(&answer);
    const Micros bound = best != nullptr ? best->lower_bound : kNever;
    const bool is_hopeless = best != nullptr && !may_be_faster(fewer, best->expected);
    const bool is_taken =
        !is_hopeless && take_if_faster(answer, std::move(fewer), [](const PlanQuestion& asked) {
          return with_drives_or_without(asked, nobody());
        });
    count.advance(1);
    if (!is_taken) continue;
    // That of all devices counts on blocks that take as long as on the slowest.
    Micros& lower = std::get<Planned>(answer).lower_bound;
    lower = std::min(lower, bound);
  }
  return answer;
}

AnswerWithoutRemedies search(const PlanQuestion& question, PhaseListener& listener) {
  const Answerer try_all = [&](const PlanQuestion& asked) {
    return on_all_or_fewer_devices(asked, listener);
  };
  return question.shared ? answer_in_shared_memory(question, try_all) : try_all(question);
}

using FindChanges = std::function<std::vector<FittingChange>(const PlanQuestion& question,
                                                             const Shortage& lacking)>;

/// The answer, its plans verified; where nothing fits, with what `changes_of` finds.
PlanAnswer checked_answer(const PlanQuestion& asked, PhaseListener& listener,
                          const FindChanges& changes_of) {
  asked_strategies(asked);
  check_question(asked);
  const PlanQuestion question = with_estimated_profile(asked);
  const Chain chain = make_chain(question);
  check_size(question, chain);
  check_times(question, chain);
  AnswerWithoutRemedies answer = search(question, listener);
  if (auto* lacking = std::get_if<Shortage>(&answer)) {
    std::vector<FittingChange> changes = changes_of(question, *lacking);
    return does_not_fit(question, std::move(*lacking), std::move(changes));
  }
  Planned planned = std::get<Planned>(std::move(answer));
  check_verified(planned.plan);
  if (planned.evaluation) check_verified(*planned.evaluation);
  return planned;
}

/// What fits in place of a given plan that leaves evaluation too little: another plan for the same
/// question, or else one for a changed question.
std::vector<FittingChange> changes_of_plan(const PlanQuestion& question, const Shortage& lacking) {
  const AnswerWithoutRemedies anew = answer_question(question);
  if (const auto* planned = std::get_if<Planned>(&anew)) {
    return {{.text = "a new plan (ferry plan)",
             .question = question,
             .step = planned->expected,
             .memory = {}}};
  }
  return find_changes(question, lacking);
}

}  // namespace

AnswerWithoutRemedies answer_question(const PlanQuestion& question) {
  return search(question, nobody());
}

PlanAnswer make_plan(const PlanQuestion& question) { return search_plan(question, nobody()); }

PlanAnswer search_plan(const PlanQuestion& asked, PhaseListener& listener) {
  return checked_answer(
      asked, listener, [&](const PlanQuestion& question, const Shortage& lacking) {
        ProgressCount looking(listener, "looking for changes that fit", 1, "search");
        std::vector<FittingChange> changes = find_changes(question, lacking);
        looking.advance(1);
        return changes;
      });
}

PlanAnswer plan_without_remedies(const PlanQuestion& question) {
  return checked_answer(question, nobody(), [](const PlanQuestion&, const Shortage&) {
    return std::vector<FittingChange>();
  });
}

Bytes peak_bytes(const Planned& planned, PlaceId place) {
  std::vector<const Plan*> plans = {&planned.plan};
  if (planned.evaluation) plans.push_back(&*planned.evaluation);
  return peak_bytes(plans, place);
}

std::variant<Plan, DoesNotFit> make_evaluation(const PlanQuestion& asked, const Plan& training) {
  const PlanQuestion question = with_estimated_profile(asked);
  std::variant<Plan, Shortage> answer = plan_evaluation(question, training);
  if (auto* lacking = std::get_if<Shortage>(&answer)) {
    std::vector<FittingChange> changes = changes_of_plan(question, *lacking);
    DoesNotFit no = does_not_fit(question, std::move(*lacking), std::move(changes));
    no.limit_source = "the plan";
    return no;
  }
  Plan evaluation = std::get<Plan>(std::move(answer));
  check_verified(evaluation);
  return evaluation;
}

}  // namespace ferry
