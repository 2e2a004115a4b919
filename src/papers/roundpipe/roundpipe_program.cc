#include "papers/roundpipe/roundpipe_program.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "papers/roundpipe/roundpipe_dispatch.h"
#include "papers/timing/block_costs.h"
#include "papers/timing/timing_plan.h"
#include "planner/cuts/asked_stages.h"

namespace ferry {
namespace {

constexpr int kPlanSteps = 4;  // cycles of a plan without a flush, until it is steady

std::vector<RoundPipeLayer> layers_of(const std::vector<BlockCosts>& blocks) {
  std::vector<RoundPipeLayer> layers;
  for (const BlockCosts& block : blocks) {
    layers.push_back({block.forward_time, block.backward_time, block.forward_upload,
                      block.backward_upload + block.gradient_download});
  }
  return layers;
}

// Half of what the largest workspace leaves: the other half is the next stage's, prefetched.
double stage_memory(const EvaluatorProblem& problem, const std::vector<BlockCosts>& blocks) {
  double workspace = 0;
  for (const BlockCosts& block : blocks) {
    workspace = std::max({workspace, block.forward_memory - block.forward_upload,
                          block.backward_memory - block.backward_upload - block.gradient_download});
  }
  return (problem.memory - workspace) / 2;
}

// Blocks per stage of both passes, in order of dispatch. plan.stages alone: backward is cut alike,
// and its last stage is fused.
struct AskedCounts {
  std::vector<int> forward;
  std::vector<int> backward;  // the first is fused
};

AskedCounts asked_counts(const PlanJob& options) {
  AskedCounts counts{options.stages.value_or(std::vector<int>()),
                     options.backward_stages.value_or(std::vector<int>())};
  if (counts.backward.empty()) {
    counts.backward.assign(counts.forward.rbegin(), counts.forward.rend());
  }
  return counts;
}

// plan.stages and plan.backward_stages as a partition; plan.stages may name the fused stage too.
RoundPipePartition asked_partition(const PlanJob& options,
                                   const std::vector<RoundPipeLayer>& layers) {
  AskedCounts counts = asked_counts(options);
  const int count = static_cast<int>(layers.size());
  const std::vector<int> backward_ends = ends_of(counts.backward, count, "plan.backward_stages");
  const int fused = counts.backward.front();
  const bool whole = std::accumulate(counts.forward.begin(), counts.forward.end(), 0) == count;
  if (whole && !counts.forward.empty() && counts.forward.back() == fused) {
    counts.forward.pop_back();
  }
  RoundPipePartition partition;
  const auto add = [&](Direction direction, int first, int end) {
    double time = 0;
    for (int l = first; l < end; ++l) {
      const RoundPipeLayer& layer = layers[l];
      time += direction == Direction::forward ? layer.forward : layer.backward;
    }
    partition.stages.push_back({direction, first, end, time});
    partition.t_max = std::max(partition.t_max, time);
  };
  int first = 0;
  for (const int end : ends_of(counts.forward, count - fused, "plan.stages")) {
    add(Direction::forward, first, end);
    first = end;
  }
  // From the last layer down.
  int end = count;
  for (const int taken : backward_ends) {
    add(end == count ? Direction::fused : Direction::backward, count - taken, end);
    end = count - taken;
  }
  return partition;
}

// A cut, and the micro-batches of each round.
struct ChosenPartition {
  RoundPipePartition partition;
  std::vector<int> rounds;
};

ChosenPartition chosen_partition(const PlanQuestion& question, const RoundPipeProblem& problem,
                                 const std::vector<RoundPipeLayer>& layers) {
  const PlanJob& options = question.options;
  const int round = options.round > 0 ? options.round : problem.devices;
  const std::vector<int> rounds = even_rounds(problem.micro_batches, round);
  if (options.stages) {
    return {asked_partition(options, layers), rounds};
  }
  if (options.partition == Partitioner::search) {
    RoundPipeChoice choice =
        search_roundpipe({.problem = problem, .flush = question.papers.flush}, layers);
    return {std::move(choice.partition), options.round > 0 ? rounds : choice.rounds};
  }
  std::vector<RoundPipePartition> best = roundpipe_partitions(problem, layers);
  if (best.empty()) return {};
  return {std::move(best.front()), rounds};
}

// The largest layer alone does not fit.
Shortage shortage_of(const PlanQuestion& question, const std::vector<BlockCosts>& blocks) {
  const EvaluatorProblem problem = pure_problem(question);
  double need = 0;
  for (const RoundPipeLayer& layer : layers_of(blocks)) {
    need = std::max({need, layer.forward_bytes, layer.backward_bytes});
  }
  const double lacking = 2 * (need - stage_memory(problem, blocks));
  Shortage shortage;
  shortage.place = question.machine.devices[least_device(question)].name;
  shortage.have = {static_cast<std::int64_t>(problem.memory)};
  shortage.need = shortage.have + Bytes{static_cast<std::int64_t>(lacking + 1)};
  shortage.breakdown = {
      {"weights and gradients of the largest layer, twice", {static_cast<std::int64_t>(2 * need)}}};
  return shortage;
}

// `steps` steps in one plan. Blocks are of the forward stages; the fused stage ends them.
Plan write_plan(const PlanQuestion& question, const ChosenPartition& chosen, int steps,
                int layers) {
  const int micro_batches = question.micro_batches;
  TimingPlan plan("roundpipe", steps * micro_batches, layers);
  int stage = 0;
  for (const RoundPipeStage& one : chosen.partition.stages) {
    if (one.direction == Direction::backward) break;
    for (int l = one.first; l < one.end; ++l) plan.set_stage(l, stage);
    ++stage;
  }
  std::vector<ResourceId> computes;
  for (const MachineDevice& device : question.machine.devices) {
    const PlaceId place = plan.place(device.name, PlaceKind::device);
    computes.push_back(plan.compute(device.name + ".compute", place));
  }
  std::size_t device = 0;
  int first = 0;                  // micro-batch of the round
  std::vector<TaskId> entrances;  // of the rounds
  std::vector<TaskId> exits;
  for (int step = 0; step < steps; ++step) {
    for (const int round : chosen.rounds) {
      std::vector<TaskId> input;
      for (std::size_t s = 0; s < chosen.partition.stages.size(); ++s) {
        const RoundPipeStage& one = chosen.partition.stages[s];
        const bool forward = one.direction == Direction::forward;
        std::vector<TaskId> output;
        for (int m = 0; m < round; ++m) {
          std::vector<TaskId> after;
          if (s > 0) after.push_back(input[m]);
          const std::string name =
              (forward ? "F." : "B.") + std::to_string(one.first) + "." + std::to_string(first + m);
          output.push_back(plan.add(forward ? TaskKind::forward : TaskKind::backward, name,
                                    computes[device], {one.time}, std::move(after)));
          plan.about(output.back(), one.first, first + m);
        }
        if (s == 0) entrances.push_back(output.front());
        input = std::move(output);
        device = (device + 1) % computes.size();
      }
      exits.push_back(input.back());
      first += round;
    }
  }
  if (!question.papers.flush) return plan.finish();
  // The flush: no round begins before every round of the step before has ended.
  for (const TaskId entrance : entrances) {
    for (const TaskId exit : exits) plan.wait_for_previous(entrance, exit);
  }
  return plan.finish();
}

PlanReport report_of(const PlanQuestion& question, const ChosenPartition& chosen,
                     const RoundPipeDispatch& dispatch) {
  PlanReport report;
  const auto& devices = question.machine.devices;
  std::size_t device = 0;
  for (const RoundPipeStage& stage : chosen.partition.stages) {
    report.stages.push_back({stage.direction, devices[device].name, stage.first, stage.end});
    report.mapping.push_back(static_cast<int>(device));
    device = (device + 1) % devices.size();
  }
  const double makespan = dispatch_ends(dispatch, 1).front();
  const double steady = steady_step(dispatch);
  const bool flush = question.papers.flush;
  report.figures["makespan"] = makespan;
  report.figures["step"] = flush ? makespan : steady;
  report.figures["bubble_first"] = dispatch_bubble(dispatch, makespan);
  report.figures["bubble_steady"] = dispatch_bubble(dispatch, steady);
  report.figures["bubble"] = report.figures[flush ? "bubble_first" : "bubble_steady"];
  report.figures["t_max"] = chosen.partition.t_max;
  report.figures["cost"] = chosen.partition.cost;
  report.figures["rounds"] = static_cast<double>(chosen.rounds.size());
  for (const char* name : {"staleness_min", "staleness_max", "staleness_mean"}) {
    report.figures[name] = flush ? 0 : 1;
  }
  report.series["in_flight"].assign(chosen.partition.stages.size(), chosen.rounds.front());
  return report;
}

// Weights go up for every stage visit of every round, gradients down; boundaries pass through the
// host: inputs of forward stages are kept there for the backward, which reads them again.
void add_traffic(PlanReport& report, const ChosenPartition& chosen,
                 const std::vector<BlockCosts>& blocks, int micro_batches) {
  double up = 0;
  double down = 0;
  const auto rounds = static_cast<double>(chosen.rounds.size());
  for (const RoundPipeStage& stage : chosen.partition.stages) {
    const bool backward = stage.direction != Direction::forward;
    for (int l = stage.first; l < stage.end; ++l) {
      const BlockCosts& block = blocks[l];
      up += rounds * (backward ? block.backward_upload : block.forward_upload);
      if (backward) down += rounds * block.gradient_download;
      // Forward saves every layer's input on the host, and backward reads it again; the fused
      // stage needs its first layer's alone.
      const double input = l > 0 ? blocks[l - 1].activation : 0;
      if (stage.direction == Direction::forward) down += micro_batches * input;
      if (l == stage.first || stage.direction == Direction::backward) up += micro_batches * input;
    }
    if (!backward) continue;
    const double gradient = blocks[stage.first].activation_gradient;
    if (stage.first > 0) down += micro_batches * gradient;
    if (stage.direction == Direction::backward)
      up += micro_batches * blocks[stage.end].activation_gradient;
  }
  report.figures["traffic_up_bytes"] = up;
  report.figures["traffic_down_bytes"] = down;
}

}  // namespace

ProgramAnswer roundpipe_program(const PlanQuestion& question) {
  const std::vector<BlockCosts> blocks = profile_costs(question.profile);
  const EvaluatorProblem pure = pure_problem(question);
  RoundPipeProblem problem;
  problem.devices = pure.devices;
  problem.micro_batches = pure.micro_batches;
  problem.memory = stage_memory(pure, blocks);
  const ChosenPartition chosen = chosen_partition(question, problem, layers_of(blocks));
  if (chosen.partition.stages.empty()) return shortage_of(question, blocks);

  const RoundPipeDispatch dispatch{problem.devices, stage_times(chosen.partition), chosen.rounds};
  const int steps = question.papers.flush ? 1 : dispatch_cycle(dispatch);
  Program answer;
  answer.plan = write_plan(question, chosen, steps, static_cast<int>(blocks.size()));
  answer.prediction = simulate(answer.plan, question.papers.flush ? 3 : kPlanSteps);
  answer.report = report_of(question, chosen, dispatch);
  answer.report.figures["steps_in_plan"] = steps;
  if (!question.papers.flush) {
    answer.prediction.step = {answer.report.figures["step"]};
    answer.prediction.busiest = answer.prediction.busiest * (1.0 / steps);
  }
  add_traffic(answer.report, chosen, blocks, problem.micro_batches);
  answer.remark = std::to_string(chosen.partition.stages.size()) + " stages, " +
                  std::to_string(chosen.rounds.size()) + " rounds";
  // Every layer's backward, which contains its forward again, on all devices alike; every
  // micro-batch goes through all of it when there is a flush.
  double chain = 0;
  for (const BlockCosts& block : blocks) chain += block.backward_time;
  const double share = problem.micro_batches * chain / problem.devices;
  answer.lower_bound = {question.papers.flush ? std::max(share, chain) : share};
  return answer;
}

}  // namespace ferry
