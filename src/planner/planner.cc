#include "planner/planner.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "plan/verify.h"
#include "planner/answer.h"
#include "planner/bounds.h"
#include "planner/estimate.h"
#include "planner/remedies.h"

namespace ferry {
namespace {

// Less is rounding: of such plans the one of the strategy with less traffic is taken.
constexpr double kNoticeable = 1e-9;

// The strategies that the question lets take part.
std::vector<const Strategy*> entrants(const PlanQuestion& question) {
  std::vector<const Strategy*> result;
  std::string names;
  // Papers' programs have cost models of their own and do not compete.
  const bool everyone = question.strategy == "auto" && !question.options.pure;
  for (const Strategy& strategy : strategies()) {
    const bool has_form =
        question.options.pure ? strategy.program != nullptr : strategy.plan != nullptr;
    if (!has_form) continue;
    names += std::string(names.empty() ? "" : ", ") + strategy.name;
    if (question.strategy == strategy.name || everyone) result.push_back(&strategy);
  }
  if (question.options.pure && question.strategy == "auto") {
    throw UserError(
        "plan.pure: papers' programs have cost models of their own and do not compete; "
        "expected strategy to be one of " +
        names);
  }
  if (!result.empty()) return result;
  throw UserError("strategy '" + question.strategy + "' has no " +
                  (question.options.pure ? "pure program; expected one of "
                                         : "plan of its own; expected auto or one of ") +
                  names);
}

void check_question(const PlanQuestion& question) {
  entrants(question);
  if (question.micro_batches < 1 || question.micro_batch_size < 1 || question.sequence < 1) {
    throw UserError("a step needs at least one micro-batch, of one sequence, of one token");
  }
  if (question.model.blocks.empty() && question.profile.chain.empty()) {
    throw UserError("a question needs a model, or a profile with a chain of blocks");
  }
  if (question.model.blocks.size() == 1) throw UserError("a model needs an embedding and a head");
  if (question.machine.devices.empty()) throw UserError("a machine needs at least one device");
  if (!question.model.blocks.empty()) check_sequence(question.model, question.sequence);
}

PlanQuestion with_profile(const PlanQuestion& question) {
  PlanQuestion result = question;
  if (question.profile.blocks.empty()) {
    result.profile = estimate_profile(question.model, question.machine, question.precision,
                                      {question.micro_batch_size, question.sequence});
  }
  return result;
}

std::string lack_text(const Shortage& lacking) {
  return lacking.place + " needs " + to_string(lacking.need) + ", has " + to_string(lacking.have);
}

// Collects the strategies' answers and keeps the best.
class Contest {
 public:
  explicit Contest(const PlanQuestion& question)
      : question_(question), chain_(question.options.pure ? Chain{} : make_chain(question)) {}

  AnswerWithoutRemedies run() {
    for (const Strategy* strategy : entrants(question_)) enter(*strategy);
    if (!best_) return std::move(*lacking_);
    const auto better = [&](const Candidate& a, const Candidate& b) {
      const auto rank = [&](const Candidate& candidate) {
        return std::tuple(candidate.strategy != winner_, !candidate.fits, candidate.step.count);
      };
      return rank(a) < rank(b);
    };
    std::stable_sort(candidates_.begin(), candidates_.end(), better);
    if (!question_.options.pure) bound_ = lower_bound(question_, chain_);
    return Planned{std::move(best_->plan), std::move(best_->report), std::move(best_->prediction),
                   bound_, std::move(candidates_)};
  }

 private:
  void enter(const Strategy& strategy) {
    const bool pure = question_.options.pure;
    PlanQuestion question = question_;
    if (best_ && !pure) question.faster_than = best_->prediction.step * (1 - kNoticeable);
    StrategyAnswer answer = pure ? strategy.program(question) : strategy.plan(question, chain_);
    if (auto* lacking = std::get_if<Shortage>(&answer)) {
      candidates_.push_back({strategy.name, false, {}, {}, {}, lack_text(*lacking)});
      // The strategy that lacks least says what is missing.
      if (!lacking_ || lacking->need - lacking->have < lacking_->need - lacking_->have) {
        lacking_ = std::move(*lacking);
      }
      return;
    }
    StrategyPlan planned = std::get<StrategyPlan>(std::move(answer));
    if (pure) {  // programs know micro-batches, not what is in them
      planned.plan.micro_batch_size = question.micro_batch_size;
      planned.plan.sequence = question.sequence;
    }
    const Micros bound = pure ? planned.lower_bound : strategy.lower_bound(question_, chain_);
    candidates_.push_back({strategy.name, true, planned.prediction.step, bound,
                           planned.prediction.busiest_name, planned.remark});
    if (pure) bound_ = best_ ? std::min(bound_, bound) : bound;
    const bool wins =
        !best_ || planned.prediction.step.count < best_->prediction.step.count * (1 - kNoticeable);
    if (wins) {
      best_ = std::move(planned);
      winner_ = strategy.name;
    }
  }

  const PlanQuestion& question_;
  const Chain chain_;
  std::vector<Candidate> candidates_;
  std::optional<StrategyPlan> best_;
  std::string winner_;
  std::optional<Shortage> lacking_;
  Micros bound_;
};

}  // namespace

AnswerWithoutRemedies answer_question(const PlanQuestion& question) {
  return Contest(question).run();
}

PlanAnswer make_plan(const PlanQuestion& asked) {
  check_question(asked);
  const PlanQuestion question = with_profile(asked);
  AnswerWithoutRemedies answer = answer_question(question);
  if (auto* planned = std::get_if<Planned>(&answer)) {
    const std::optional<Violation> violation = verify(planned->plan);
    FERRY_CHECK(!violation, violation ? violation->message : std::string());
    return std::move(*planned);
  }
  Shortage lacking = std::get<Shortage>(std::move(answer));
  DoesNotFit result;
  result.place = lacking.place;
  result.need = lacking.need;
  result.have = lacking.have;
  result.limit_source =
      lacking.kind == PlaceKind::host ? question.host_budget_source : question.device_budget_source;
  for (Change& change : find_changes(question, lacking)) {
    result.remedies.push_back({std::move(change.text), change.step});
  }
  result.breakdown = std::move(lacking.breakdown);
  return result;
}

}  // namespace ferry
