#include "papers/mobius/mobius_experiments.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "exec/simulator.h"
#include "papers/mobius/mobius_on_links.h"
#include "papers/mobius/mobius_program.h"
#include "papers/mobius/zero_program.h"
#include "papers/timing/block_costs.h"
#include "papers/timing/program_questions.h"
#include "papers/timing/program_stages.h"
#include "planner/cuts/asked_stages.h"
#include "planner/cuts/mapping.h"
#include "planner/cuts/mip.h"
#include "planner/cuts/partition.h"
#include "planner/orders/pipeline.h"

namespace ferry {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kSequence = 512;        // tokens of a micro-batch
constexpr double kFastRate = 12e9;    // "more than half of the bytes above 12 GB/s"
constexpr double kPeakFlops = 80e12;  // per second, where a machine does not say
constexpr double kEfficiency = 0.5;   // of peak FLOPs, by guess
constexpr double kAllowed = 0.02;     // bands of two printed digits

// A question of the pure program with a server and a model.
PlanQuestion question_of(const Machine& machine, const GptModel& model) {
  PlanQuestion question;
  question.machine = machine;
  question.micro_batches = static_cast<int>(machine.devices.size());
  question.sequence = kSequence;
  question.precision = Precision::bf16;
  question.papers.pure = true;
  const double flops = machine.devices.front().flops_bf16;
  question.profile = gpt_profile(model, kSequence, kEfficiency * (flops > 0 ? flops : kPeakFlops));
  question.host_budget = machine.host.memory;
  return question;
}

// The share of copied bytes that copies moved faster than `rate`, each taken by its mean speed.
double bytes_above(const Plan& plan, const Simulation& simulation, double rate) {
  double fast = 0;
  double all = 0;
  for (const Span& span : simulation.timeline.spans) {
    const double bytes = static_cast<double>(plan.tasks[span.run.task].bytes.count);
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
  program.ends = asked_or_even_ends(question, stages);
  program.stages = stages_of(profile_costs(question.profile), program.ends);
  if (!evaluate_stages(program.problem, program.stages).feasible) return std::nullopt;
  const int count = static_cast<int>(program.stages.size());
  const int devices = program.problem.devices;
  program.device_of_slot =
      cross ? cross_mapping(roots_of(question.machine), count) : cyclic_map(devices, devices);
  return program;
}

// Of ZeRO-3's step over Mobius's. The paper's servers have four GPUs.
PaperRow ratio_row(const std::string& where, const Machine& machine, double ratio) {
  const std::string what = "zero / mobius step" + where;
  PaperRow row;
  if (machine.devices.size() == 4) {
    row = band_row(what, ratio, 3.8, 5.1);
    if (row.error != 0) {
      row.remark = "models and batch sizes are not published; ours are 512 tokens per GPU";
    }
    return row;
  }
  row = told_row(what, ratio);
  row.remark =
      "nothing published: ZeRO-3's bytes grow with N, 15 times Mobius's with eight GPUs, 7 with "
      "the "
      "paper's four";
  return row;
}

// Why weights may come slower than 12 GB/s over a link of 13: what else takes the link, as a share
// of them.
std::string shared_links(const Machine& machine, const GptModel& model, int stages) {
  const BlockProfile block = gpt_profile(model, kSequence, kPeakFlops).blocks.front();
  const double weights = static_cast<double>(block.weights.count) * model.layers / stages;
  const double passed =
      static_cast<double>(block.activation.count) * static_cast<double>(machine.devices.size());
  return "micro-batches that pass between stages take the links too: " +
         std::to_string(std::lround(100 * passed / weights)) +
         " % of the weights' bytes, and 12 of 13 GB/s leaves them 8 %";
}

}  // namespace

Profile gpt_profile(const GptModel& model, int sequence, double flops) {
  const double hidden = model.hidden;
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
  profile.name = model.name;
  profile.sequence = sequence;
  profile.blocks = {block};
  profile.chain.assign(model.layers, 0);
  return profile;
}

MobiusMeasurement measure_mobius(const Machine& machine, const GptModel& model) {
  const PlanQuestion question = question_of(machine, model);
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
  FERRY_CHECK(result.stages > 0, "a partition of " + model.name + " that fits " + machine.name);
  const auto sequential = even_program(question, result.stages, false);
  result.sequential_step = simulate(write_mobius_on_links(question, *sequential), 2).step.seconds();
  const auto zero = std::get<Program>(zero_program(question));
  result.zero_step = zero.prediction.step.seconds();
  result.zero_idle = zero.report.figures.at("bubble");
  return result;
}

std::vector<PaperRow> mobius_experiments(const std::vector<Machine>& machines) {
  std::vector<PaperRow> ratios;
  std::vector<PaperRow> idle;
  std::vector<PaperRow> fast;
  std::vector<PaperRow> mapped;
  for (const GptModel& model : {GptModel{"3b", 32, 2816}, GptModel{"8b", 40, 4096},
                                GptModel{"15b", 48, 5120}, GptModel{"51b", 50, 9216}}) {
    for (const Machine& machine : machines) {
      const MobiusMeasurement measured = measure_mobius(machine, model);
      const std::string where = ", " + model.name + " on " + machine.name;
      ratios.push_back(ratio_row(where, machine, measured.zero_step / measured.mobius_step));
      idle.push_back(value_row("zero: step without compute" + where, measured.zero_idle, 0.7));
      idle.back().remark =
          "\"about 70 %\" at batch sizes that are not published; ours is 512 tokens per GPU";
      fast.push_back(band_row("bytes above 12 GB/s" + where, measured.fast_bytes, 0.5, kInfinity));
      if (fast.back().error != 0) {
        fast.back().remark = shared_links(machine, model, measured.stages);
      }
      mapped.push_back(band_row("sequential / cross step" + where,
                                measured.sequential_step / measured.mobius_step, 1, kInfinity));
    }
  }
  for (const auto* more : {&idle, &fast, &mapped}) {
    ratios.insert(ratios.end(), more->begin(), more->end());
  }
  return rows_from(Provenance::reading, kAllowed, std::move(ratios));
}

std::vector<PaperRow> mobius_traffic_experiments() {
  constexpr int kLayers = 48;
  constexpr double kParameters = 1000 * kLayers;
  Profile profile = equal_profile(kLayers, 10, 30);
  profile.blocks.front().weights = profile.blocks.front().gradients = 2000_B;
  std::vector<PaperRow> rows;
  for (const auto& [devices, published] : {std::pair{4, 42.0}, {8, 90.0}}) {
    const auto moved = [&](const char* strategy, ProgramAnswer (*program)(const PlanQuestion&)) {
      PlanQuestion question = pure_question(strategy, devices, devices, profile);
      if (program == mobius_program) question.options.stages = std::vector<int>(kLayers, 1);
      const auto figures = std::get<Program>(program(question)).report.figures;
      return (figures.at("traffic_up_bytes") + figures.at("traffic_down_bytes")) / kParameters;
    };
    const std::string gpus = ", N = " + std::to_string(devices);
    const double zero = moved("zero", zero_program);
    const double mobius = moved("mobius", mobius_program);
    const double once = 6 - 2.0 * devices / kLayers;
    rows.push_back(value_row("zero: bytes per parameter" + gpus, zero, published));
    rows.push_back(value_row("mobius: bytes per parameter" + gpus, mobius, once));
    rows.push_back(value_row("zero / mobius bytes" + gpus, zero / mobius, published / once));
    rows.back().remark = rows[rows.size() - 2].remark =
        "each weight once per pass, but the last N of 48 stages stay across the turn: 6 - 2 N / S; "
        "printed is 1 / N";
  }
  return rows_from(Provenance::derived, kAllowed, std::move(rows));
}

std::vector<PaperRow> mobius_partition_experiments(const Machine& machine) {
  std::vector<PaperRow> rows;
  for (const int layers : {12, 24}) {
    const PlanQuestion question = question_of(machine, {"15b", layers, 5120});
    const EvaluatorProblem problem = pure_problem(question);
    const auto blocks = profile_costs(question.profile);
    const double searched = search_partition(problem, blocks, 1).best.front().step;
    MipResult proven;
    try {
      proven = solve_partition_mip(problem, blocks, {});
    } catch (const ResourceError&) {  // built without HiGHS
      return {};
    }
    rows.push_back(
        value_row("MIP / search step, " + std::to_string(layers) + " layers on " + machine.name,
                  proven.step / searched, 1));
    if (proven.exact) rows.back().remark = "optimum proven";
  }
  return rows_from(Provenance::derived, kAllowed, std::move(rows));
}

}  // namespace ferry
