// Compiles (model, machine, profile, job) into a verified plan, or says what does not fit and what
// would.
//
// Passes live in files of their own; strategies (resident.cc, mobius.cc) compose them. Equal
// questions give equal answers.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "exec/simulator.h"
#include "plan/plan.h"
#include "spec/harmony_profile.h"
#include "spec/job.h"
#include "spec/machine.h"
#include "spec/model_spec.h"
#include "spec/profile.h"

namespace ferry {

/// Everything a plan depends on. The command line fills it from a job.
struct PlanQuestion {
  ModelSpec model;  // without blocks: the profile's chain stands for it, and nothing can train
  Machine machine;
  Profile profile;  // of the same micro-batch size, sequence and precision
  int micro_batches = 1;
  int micro_batch_size = 1;
  int sequence = 1;
  Precision precision = Precision::fp32;
  bool clips = true;
  PlanMode mode = PlanMode::train;
  std::string strategy = "auto";  // auto, or a name of strategy.h's table
  PlanJob options;
  std::optional<HarmonyProfile> harmony;  // the profile, when it came in Harmony's form: all sizes
  /// Of no use unless faster than this: strategies leave out shapes that cannot be.
  std::optional<Micros> faster_than = {};
  Bytes device_budget;  // per device
  Bytes host_budget;
  std::string device_budget_source;  // where the limit comes from, for messages: "budget.device,
                                     // job.yaml:9"
  std::string host_budget_source;
};

/// One strategy's answer.
struct Candidate {
  std::string strategy;
  bool fits = false;
  Micros step;          // predicted, steady state
  Micros lower_bound;   // no plan of this strategy is faster
  std::string binding;  // the resource or pool that is busiest
  std::string remark;   // why it lost, or which place lacks how much
};

/// Consecutive blocks that run as one on a device, in a pass.
struct StageReport {
  enum class Pass { both, forward, backward, fused };  // fused: forward and backward in one visit
  Pass pass = Pass::both;
  std::string device;
  int first = 0;  // block
  int end = 0;    // one past the last block
};

/// What a strategy says of its plan beside the plan. docs/formats/cli.md lists names.
struct PlanReport {
  std::vector<StageReport> stages;                    // in order of their first run
  std::vector<int> mapping;                           // device of each stage, or slot
  std::map<std::string, double> figures;              // "bubble", "candidates", ...
  std::map<std::string, std::vector<double>> series;  // "in_flight": one number per stage, ...
};

struct Planned {
  Plan plan;  // verified
  PlanReport report;
  Simulation prediction;
  Micros lower_bound;  // no schedule of any strategy is faster on this machine: docs/planner.md
  std::vector<Candidate> candidates;  // best first
};

struct Remedy {
  std::string change;  // "budget.device: 96 MiB"
  Micros step;         // predicted with that change
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

}  // namespace ferry
