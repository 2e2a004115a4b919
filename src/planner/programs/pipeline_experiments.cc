#include "planner/programs/pipeline_experiments.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <utility>

#include "base/check.h"
#include "exec/simulator.h"
#include "planner/even_stages.h"
#include "planner/mapping.h"
#include "planner/orders.h"
#include "planner/programs/asked_stages.h"
#include "planner/programs/block_costs.h"
#include "planner/programs/mobius_on_links.h"
#include "planner/programs/zero_program.h"
#include "planner/roundpipe_dispatch.h"

namespace ferry {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kSequence = 512;        // tokens of a micro-batch
constexpr double kFastRate = 12e9;    // "more than half of the bytes above 12 GB/s"
constexpr double kPeakFlops = 80e12;  // per second, where a machine does not say
constexpr double kEfficiency = 0.5;   // of peak FLOPs, by guess

std::size_t index(int id) { return static_cast<std::size_t>(id); }

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

Pipeline even_pipeline(const std::vector<RoundPipeLayer>& layers, int devices, int chunks,
                       int micro_batches) {
  std::vector<double> times;
  for (const RoundPipeLayer& layer : layers) times.push_back(layer.forward + layer.backward);
  Pipeline pipeline;
  pipeline.devices = devices;
  pipeline.micro_batches = micro_batches;
  pipeline.device = cyclic_map(devices * chunks, devices);
  std::size_t first = 0;
  for (const int end : even_stages(times, devices * chunks)) {
    double forward = 0;
    double backward = 0;
    for (; first < index(end); ++first) {
      forward += layers[first].forward;
      backward += layers[first].backward;
    }
    pipeline.forward.push_back(forward);
    pipeline.backward.push_back(backward);
  }
  return pipeline;
}

double bubble_of(OrderRule rule, const Pipeline& pipeline) {
  return 1 - efficiency(pipeline, earliest_times(pipeline, order_of(rule, pipeline)).makespan);
}

// Layers of (1, 3) and one unit of weights, and a head worth `head` of them.
std::vector<RoundPipeLayer> layers_with_head(int layers, double head) {
  std::vector<RoundPipeLayer> result(index(layers), {1, 3, 1, 2});
  result.push_back({head, 3 * head, head, 2 * head});
  return result;
}

std::string label(int layers, int head) {
  return std::to_string(layers) + " layers, head of " + std::to_string(head);
}

void add_closed_forms(std::vector<ExperimentRow>& rows) {
  const std::vector<RoundPipeLayer> layers(48, {1, 3});
  for (const int m : {8, 16, 24}) {
    const std::string batches = ", 8 GPUs, M = " + std::to_string(m);
    const double simple = 1 - pipeline_efficiency(m, 8);
    const Pipeline pipeline = even_pipeline(layers, 8, 1, m);
    rows.push_back(
        band_row("gpipe bubble" + batches, bubble_of(OrderRule::gpipe, pipeline), simple, simple));
    rows.push_back(band_row("1f1b bubble" + batches, bubble_of(OrderRule::one_f_one_b, pipeline),
                            simple, simple));
    const double interleaved = 1 - interleaved_efficiency(m, 8, 2);
    rows.push_back(band_row("interleaved bubble, v = 2" + batches,
                            bubble_of(OrderRule::interleaved, even_pipeline(layers, 8, 2, m)),
                            interleaved, interleaved));
  }
}

// The tables of sections 12 and 13.
void add_roundpipe_tables(std::vector<ExperimentRow>& rows) {
  struct Equal {
    int devices, stages, rounds, round;
    double bubble;
  };
  for (const Equal& row :
       {Equal{4, 17, 2, 4, 0.081081}, Equal{4, 17, 2, 6, 0.072727}, Equal{4, 16, 2, 6, 0.058824},
        Equal{8, 27, 2, 8, 0.114754}, Equal{8, 27, 2, 9, 0.106618}, Equal{3, 7, 3, 4, 0.066667}}) {
    const RoundPipeDispatch dispatch{row.devices, std::vector<double>(index(row.stages), 1.0),
                                     std::vector<int>(index(row.rounds), row.round)};
    const double bubble = dispatch_bubble(dispatch, dispatch_ends(dispatch, 1).front());
    rows.push_back(band_row("roundpipe bubble, N = " + std::to_string(row.devices) +
                                ", S = " + std::to_string(row.stages) + ", rounds of " +
                                std::to_string(row.round),
                            bubble, row.bubble, row.bubble));
  }
  struct Unequal {
    int layers;
    double steady, first;
  };
  for (const Unequal& row :
       {Unequal{24, 0.000, 0.171}, Unequal{32, 0.029, 0.146}, Unequal{36, 0.000, 0.123},
        Unequal{48, 0.000, 0.096}, Unequal{64, 0.008, 0.077}}) {
    const auto partition =
        roundpipe_partitions({.devices = 8, .micro_batches = 16}, layers_with_head(row.layers, 2));
    const RoundPipeDispatch dispatch{8, stage_times(partition.front()), {8, 8}};
    const std::string what = "roundpipe bubble, " + label(row.layers, 2);
    rows.push_back(band_row(what + ", one step",
                            dispatch_bubble(dispatch, dispatch_ends(dispatch, 1).front()),
                            row.first, row.first));
    rows.push_back(band_row(what + ", no flush", dispatch_bubble(dispatch, steady_step(dispatch)),
                            row.steady, row.steady));
  }
}

// Section 18: 8 GPUs, 16 micro-batches; a stage may hold 12 layers' weights and gradients.
void add_roundpipe_claims(std::vector<ExperimentRow>& rows) {
  for (const int layers : {24, 32, 48, 64}) {
    for (const int head : {1, 2, 4}) {
      const auto chain = layers_with_head(layers, head);
      RoundPipeSearch search{.problem = {.devices = 8, .micro_batches = 16, .memory = 24},
                             .flush = false};
      const auto bubble = [&] {
        const RoundPipeChoice choice = search_roundpipe(search, chain);
        return dispatch_bubble({8, stage_times(choice.partition), choice.rounds}, choice.step);
      };
      rows.push_back(
          band_row("roundpipe steady bubble, " + label(layers, head), bubble(), -kInfinity, 0.045));
      search.flush = true;
      const double synchronous = bubble();
      double baseline = 1;
      for (int chunks = 1; chunks <= 4 && 8 * chunks <= layers; ++chunks) {
        const Pipeline pipeline = even_pipeline(chain, 8, chunks, 16);
        baseline = std::min({baseline, bubble_of(OrderRule::interleaved, pipeline),
                             bubble_of(OrderRule::stage_visit, pipeline)});
      }
      rows.push_back(
          band_row("roundpipe sync bubble less than best baseline, " + label(layers, head),
                   1 - synchronous / baseline, 0.23, 0.55));
    }
  }
}

// A question of the pure program with a server and a model.
PlanQuestion question_of(const Machine& machine, const GptShape& shape) {
  PlanQuestion question;
  question.machine = machine;
  question.micro_batches = static_cast<int>(machine.devices.size());
  question.sequence = kSequence;
  question.precision = Precision::bf16;
  question.options.pure = true;
  const double flops = machine.devices.front().flops_bf16;
  question.profile = gpt_profile(shape, kSequence, kEfficiency * (flops > 0 ? flops : kPeakFlops));
  question.device_budget = machine.devices.front().memory;
  question.host_budget = machine.host.memory;
  return question;
}

// The share of copied bytes that copies moved faster than `rate`, each taken by its mean speed.
double bytes_above(const Plan& plan, const Simulation& simulation, double rate) {
  double fast = 0;
  double all = 0;
  for (const Span& span : simulation.timeline.spans) {
    const double bytes = static_cast<double>(plan.tasks[index(span.run.task)].bytes.count);
    if (bytes <= 0) continue;
    all += bytes;
    if (bytes > rate * (span.end - span.start).seconds()) fast += bytes;
  }
  return fast / all;
}

// An even partition in `stages` stages and the given slots; nothing when a stage does not fit.
std::optional<MobiusProgram> even_program(const PlanQuestion& question, int stages, bool cross) {
  MobiusProgram program;
  program.problem = pure_problem(question);
  program.ends = asked_ends(question, stages);
  program.stages = stages_of(profile_costs(question.profile), program.ends);
  if (!evaluate_stages(program.problem, program.stages).feasible) return std::nullopt;
  const int count = static_cast<int>(program.stages.size());
  const int devices = program.problem.devices;
  program.device_of_slot =
      cross ? cross_mapping(roots_of(question.machine), count) : cyclic_map(devices, devices);
  return program;
}

}  // namespace

ExperimentRow band_row(const std::string& what, double ours, double low, double high) {
  ExperimentRow row{what, ours, "", 0};
  if (low == high) {
    row.published = number(low);
    row.error = low != 0 ? (ours - low) / low : ours;
    return row;
  }
  if (low == -kInfinity) {
    row.published = "< " + number(high);
  } else if (high == kInfinity) {
    row.published = "> " + number(low);
  } else {
    row.published = number(low) + " - " + number(high);
  }
  if (ours < low) row.error = (ours - low) / low;
  if (ours > high) row.error = (ours - high) / high;
  return row;
}

std::vector<ExperimentRow> roundpipe_experiments() {
  std::vector<ExperimentRow> rows;
  add_closed_forms(rows);
  add_roundpipe_tables(rows);
  add_roundpipe_claims(rows);
  return rows;
}

Profile gpt_profile(const GptShape& shape, int sequence, double flops) {
  const double hidden = shape.hidden;
  const double parameters = 12 * hidden * hidden;
  const double tokens = sequence;
  const double forward = (2 * parameters * tokens + 4 * tokens * tokens * hidden) / flops;
  const auto bytes = [](double count) { return Bytes{static_cast<std::int64_t>(count)}; };
  BlockProfile block;
  block.key = "layer";
  block.forward = from_seconds(forward);
  block.backward = block.forward * 3;
  block.weights = block.gradients = bytes(2 * parameters);
  block.activation = block.activation_gradient = bytes(2 * tokens * hidden);
  block.forward_workspace = bytes(16 * tokens * hidden);
  block.backward_workspace = bytes(34 * 2 * tokens * hidden);
  block.parameters = static_cast<std::int64_t>(parameters);
  Profile profile;
  profile.name = shape.name;
  profile.sequence = sequence;
  profile.blocks = {block};
  profile.chain.assign(index(shape.layers), 0);
  return profile;
}

MobiusMeasurement measure_mobius(const Machine& machine, const GptShape& shape) {
  const PlanQuestion question = question_of(machine, shape);
  MobiusMeasurement result;
  for (int rounds = 1; rounds <= 6; ++rounds) {
    const int stages = rounds * question.micro_batches;
    const std::optional<MobiusProgram> program = even_program(question, stages, true);
    if (!program) continue;
    const Plan plan = write_mobius_on_links(question, *program);
    const Simulation simulation = simulate(plan, 2);
    if (result.stages > 0 && simulation.step.seconds() >= result.mobius_step) continue;
    result.mobius_step = simulation.step.seconds();
    result.fast_bytes = bytes_above(plan, simulation, kFastRate);
    result.stages = static_cast<int>(program->stages.size());
  }
  FERRY_CHECK(result.stages > 0, "a partition of " + shape.name + " that fits " + machine.name);
  const auto sequential = even_program(question, result.stages, false);
  result.sequential_step = simulate(write_mobius_on_links(question, *sequential), 2).step.seconds();
  const auto zero = std::get<StrategyPlan>(zero_program(question));
  result.zero_step = zero.prediction.step.seconds();
  result.zero_idle = zero.report.figures.at("bubble");
  return result;
}

std::vector<ExperimentRow> mobius_experiments(const std::vector<Machine>& machines) {
  std::vector<ExperimentRow> rows;
  for (const GptShape& shape : {GptShape{"3b", 32, 2816}, GptShape{"8b", 40, 4096},
                                GptShape{"15b", 48, 5120}, GptShape{"51b", 50, 9216}}) {
    for (const Machine& machine : machines) {
      const MobiusMeasurement measured = measure_mobius(machine, shape);
      const std::string where = ", " + shape.name + " on " + machine.name;
      rows.push_back(band_row("zero / mobius step time" + where,
                              measured.zero_step / measured.mobius_step, 3.8, 5.1));
      rows.push_back(
          band_row("zero: share of a step without compute" + where, measured.zero_idle, 0.7, 0.7));
      rows.push_back(band_row("mobius bytes above 12 GB/s, cross mapping" + where,
                              measured.fast_bytes, 0.5, kInfinity));
      rows.push_back(band_row("sequential / cross step time" + where,
                              measured.sequential_step / measured.mobius_step, 1, kInfinity));
    }
  }
  return rows;
}

}  // namespace ferry
