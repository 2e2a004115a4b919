// Compiles (model, machine, profile, job) into a verified plan, or says what does not fit and what
// would.
//
// The strategies (strategies/) answer, the fastest answer is taken. Equal questions give equal
// answers.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/progress.h"
#include "exec/simulator.h"
#include "plan/plan.h"
#include "planner/costs/question.h"
#include "planner/strategies/strategy.h"

namespace ferry {

/// One strategy's answer.
struct Candidate {
  std::string strategy;
  bool fits = false;
  Micros step;                          // expected, steady state
  Micros lower_bound;                   // no plan of this strategy is faster
  std::string binding;                  // the resource or pool that is busiest
  std::string remark;                   // why it lost, or which place lacks how much
  std::vector<PassReport> passes = {};  // what the search of its plan took
};

struct Planned {
  Plan plan;                            // verified
  std::optional<Plan> evaluation = {};  // likewise, when the question evaluates: of the same
                                        // strategy, in the same memory
  PlanReport report;
  Simulation prediction;
  Micros lower_bound;  // no schedule of any strategy is faster on this machine: docs/planner.md
  std::vector<Candidate> candidates;  // best first
  Micros expected;           // the mean step, of which some may be clipped; plans are chosen by it
  Micros clipped_step = {};  // predicted, where the plan updates ahead of the norm; 0: like others
};

struct Remedy {
  std::string change;        // "budget.device: 96 MiB"
  Micros step;               // predicted with that change
  std::string assumed = {};  // what the prediction counts on that is not known; empty: nothing
};

struct DoesNotFit {
  std::string place;
  Bytes need;
  Bytes have;
  std::string limit_source;
  std::vector<std::pair<std::string, Bytes>>
      breakdown;                 // what needs it: "weights and gradients of the largest block"
  std::vector<Remedy> remedies;  // at most three, cheapest first, each planned and timed
};

using PlanAnswer = std::variant<Planned, DoesNotFit>;

/// Throws UserError for an unknown strategy or a question whose parts do not belong together.
PlanAnswer make_plan(const PlanQuestion& question);

/// make_plan(); the listener hears which strategy is tried.
PlanAnswer search_plan(const PlanQuestion& question, PhaseListener& listener);

/// make_plan() that looks for no remedies, which takes several plans.
PlanAnswer plan_without_remedies(const PlanQuestion& question);

/// What one run takes of a place of its plans.
Bytes peak_bytes(const Planned& planned, PlaceId place);

/// The plan for evaluating between the steps of `training`, a plan for the question that stays as
/// it is: within its places' budgets, in the same memory. What does not fit is told with a new plan
/// for the question where one fits, else with changes like those of make_plan().
std::variant<Plan, DoesNotFit> make_evaluation(const PlanQuestion& question, const Plan& training);

/// make_plan(), or whatever else answers questions in its place.
using Planner = std::function<PlanAnswer(const PlanQuestion&)>;

}  // namespace ferry
