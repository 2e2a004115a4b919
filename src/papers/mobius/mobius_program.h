// Strategy `mobius` as a pure program: the schedule that the printed program of Mobius section 3.2
// gives a partition, as a plan that only tells time.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "papers/timing/program.h"
#include "planner/cuts/evaluator.h"

namespace ferry {

/// One partition in its slots.
struct MobiusProgram {
  EvaluatorProblem problem;  // microseconds, bytes, bytes per microsecond
  std::vector<int> ends;     // one past the last block of each stage
  std::vector<StageCosts> stages;
  std::vector<int> device_of_slot;   // stage j runs on device_of_slot[j mod N]
  std::vector<std::string> devices;  // names
  double lower_bound = 0;            // no partition is faster
};

/// The program's tasks: forwards and backwards on "gpuK.compute", what a prefetch moves and what it
/// leaves on "gpuK.weights_up", and every boundary that passes as a delay of its own, on as many
/// lanes as never queue. Its simulated step is evaluate_stages()'s, to rounding: constraints (3) to
/// (11). Requires: the partition is feasible and the problem's switches are off.
Plan write_mobius_program(const MobiusProgram& program);

/// The partition that plan.stages gives, or the best by search; slots by plan.devices or plan.map.
/// Nothing fits: the place that lacks.
using MobiusChoice = std::variant<MobiusProgram, Shortage>;
MobiusChoice choose_mobius_program(const PlanQuestion& question);

/// papers.shared_links: the plan and its times are those of mobius_on_links.h, whose figures are
/// step, makespan, bubble and what does not depend on time.
///
/// Figures: step, forward_end, makespan (microseconds), bubble, contention_degree (of the mapping),
/// contention_degree_sequential, traffic_up_bytes and traffic_down_bytes, staleness_*:
/// 0. Series by stage: in_flight, forward_prefetch and backward_prefetch (bytes), forward_start and
/// backward_start (of the first micro-batch).
ProgramAnswer mobius_program(const PlanQuestion& question);

}  // namespace ferry
