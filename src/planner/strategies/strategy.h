// What a strategy answers: a timed plan, or what it lacks.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "exec/simulator.h"
#include "plan/plan.h"
#include "planner/costs/chain.h"
#include "planner/costs/direction.h"
#include "planner/costs/question.h"
#include "planner/write/stream_schedule.h"

namespace ferry {

/// Consecutive blocks that run as one on a device.
struct StageReport {
  Direction direction = Direction::both;
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

/// What the runs of a search's pass took together, and what the one did that ended fastest, of
/// drafts that the devices hold: no other can be the answer.
struct PassReport {
  std::string name;
  int runs = 0;
  double seconds = 0;                 // of real time
  std::optional<Micros> before = {};  // the step; none where no run had or found such a draft
  std::optional<Micros> after = {};
};

struct StrategyPlan {
  Plan plan;
  Simulation prediction;
  std::string remark;  // how it was chosen, in a few words
  PlanReport report = {};
  std::vector<PassReport> passes = {};  // in the order of their first runs
  Micros clipped_step = {};  // predicted, where the plan updates ahead of the norm; 0: like others
};

/// The mean of steps some of which are clipped (PlanJob::clipped). Plans are chosen by it.
Micros expected_step(const PlanQuestion& question, Micros step, Micros clipped_step);
Micros expected_step(const PlanQuestion& question, const StrategyPlan& found);

/// What the plan predicts of a clipped step; 0: what it does of others.
Micros clipped_step(Plan plan, const StepSimulator& simulator);

/// The place that lacks most for the strategy's plan of least memory.
struct Shortage {
  std::string place;
  PlaceKind kind = PlaceKind::device;
  Bytes need;
  Bytes have;
  std::vector<std::pair<std::string, Bytes>> breakdown;
  bool shared = false;  // it is the memory that places share (PlanQuestion::shared)

  Bytes missing() const { return need - have; }
};

using StrategyAnswer = std::variant<StrategyPlan, Shortage>;

/// One strategy: its plans can train.
struct Strategy {
  const char* name;
  StrategyAnswer (*plan)(const PlanQuestion&, const Chain&);
  Micros (*lower_bound)(const PlanQuestion&, const Chain&);
  /// The one earlier in the table whose plans of the question are this one's but for the name, so
  /// that one search does for both; or null. No function: none ever is.
  const char* (*same_as)(const PlanQuestion&) = nullptr;
};

/// The stages of visits (stream_schedule.h), in order of their first run.
std::vector<StageReport> stage_reports(const Machine& machine,
                                       const std::vector<StageVisit>& visits);

/// Those that stay on their devices.
std::vector<StageReport> stage_reports(const Machine& machine, const std::vector<int>& ends,
                                       const std::vector<int>& device_of_stage,
                                       Direction direction = Direction::both);

/// The places beyond their limits, with what they hold by kind of value; the worst first.
std::vector<Shortage> shortages(const Plan& plan);

}  // namespace ferry
