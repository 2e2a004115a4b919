#include "papers/mobius/mobius_program.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "base/check.h"
#include "papers/mobius/mobius_on_links.h"
#include "papers/timing/block_costs.h"
#include "papers/timing/program_stages.h"
#include "papers/timing/timing_plan.h"
#include "planner/cuts/asked_stages.h"
#include "planner/cuts/mapping.h"
#include "planner/cuts/mip.h"

namespace ferry {
namespace {

constexpr double kPrecision = 1e-9;  // relative, of the simulated step and the evaluator's

// Queues for delays that must not wait for each other: a delay takes the first that is free.
class Lanes {
 public:
  Lanes(TimingPlan& plan, double rate) : plan_(plan), rate_(rate) {}

  ResourceId take(double start, double end) {
    std::size_t lane = 0;
    while (lane < free_.size() && free_[lane] > start) ++lane;
    if (lane == free_.size()) {
      free_.push_back(0);
      lanes_.push_back(plan_.link("boundary." + std::to_string(lane), plan_.host(), rate_));
    }
    free_[lane] = end;
    return lanes_[lane];
  }

 private:
  TimingPlan& plan_;
  double rate_;
  std::vector<double> free_;  // by lane
  std::vector<ResourceId> lanes_;
};

// Writes a schedule that evaluate_stages() has timed.
class ProgramWriter {
 public:
  explicit ProgramWriter(const MobiusProgram& program)
      : program_(program),
        slots_(program.problem.devices),
        schedule_(evaluate_stages(program.problem, program.stages)),
        plan_("mobius", program.problem.micro_batches, program.ends.back()),
        lanes_(plan_, program.problem.bandwidth * 1e6) {
    FERRY_CHECK(schedule_.feasible, "a partition that fits");
    int first = 0;
    for (std::size_t j = 0; j < program.ends.size(); ++j) {
      first_block_.push_back(first);
      for (; first < program.ends[j]; ++first) plan_.set_stage(first, static_cast<int>(j));
    }
    for (const std::string& name : program.devices) {
      const PlaceId place = plan_.place(name, PlaceKind::device);
      computes_.push_back(plan_.compute(name + ".compute", place));
      uploads_.push_back(plan_.link(name + ".weights_up", place, lanes_rate()));
    }
  }

  Plan write() {
    const std::size_t stages = program_.stages.size();
    for (std::size_t j = 0; j < stages; ++j) stage(false, j);
    for (std::size_t j = stages; j-- > 0;) stage(true, j);
    // The first prefetches start with the step.
    for (const TaskId prefetch : first_prefetches_) {
      plan_.wait_for_previous(prefetch, task_of(true, 0).back());
    }
    Plan plan = plan_.finish();
    for (const auto& [task, micros] : remainders_) plan.tasks[task].micros = {micros};
    return plan;
  }

 private:
  using Tasks = std::vector<TaskId>;  // by micro-batch

  double lanes_rate() const { return program_.problem.bandwidth * 1e6; }
  std::size_t device(std::size_t stage) const { return program_.device_of_slot[stage % slots_]; }

  // A copy of any real number of bytes: whole bytes, and the rest as time.
  TaskId copy(const std::string& name, ResourceId link, double bytes, std::vector<TaskId> after) {
    const double whole = std::floor(bytes);
    const TaskId id = plan_.copy(name, link, {static_cast<std::int64_t>(whole)}, std::move(after));
    if (bytes > whole) {
      remainders_.emplace_back(id, (bytes - whole) / program_.problem.bandwidth);
    }
    return id;
  }

  // Constraints (8) and (11): what hands micro-batch m to the stage, or nothing.
  std::vector<TaskId> input(bool backward, std::size_t j, std::size_t m, const std::string& name) {
    const std::size_t last = program_.stages.size() - 1;
    if (!backward && j == 0) return {};
    if (backward && j == last) return {forward_[last].back()};
    const std::size_t before = backward ? j + 1 : j - 1;
    const StageCosts& stage = program_.stages[before];
    const TaskId task = task_of(backward, before)[m];
    const double bytes = backward ? stage.activation_gradient : stage.activation;
    if (bytes <= 0) return {task};
    const double end = (backward ? schedule_.backward : schedule_.forward)[before][m] +
                       (backward ? stage.backward_time : stage.forward_time);
    const double arrival = end + bytes / program_.problem.bandwidth;
    return {copy((backward ? "dA>" : "A>") + name, lanes_.take(end, arrival), bytes, {task})};
  }

  void stage(bool backward, std::size_t j) {
    const StageCosts& costs = program_.stages[j];
    const std::size_t stages = program_.stages.size();
    Tasks tasks;
    for (int m = 0; m < program_.problem.micro_batches; ++m) {
      const std::string name = std::to_string(j) + "." + std::to_string(m);
      std::vector<TaskId> after = input(backward, j, m, (backward ? "B." : "F.") + name);
      if (m == 0) {
        const bool follows = backward ? j + slots_ < stages : j >= slots_;
        if (follows) {
          for (const TaskId load : loads(backward, j)) after.push_back(load);
        }
        starts_after_[{backward, j}] = after;
      }
      const TaskId id =
          plan_.add(backward ? TaskKind::backward : TaskKind::forward,
                    (backward ? "B." : "F.") + name, computes_[device(j)],
                    {backward ? costs.backward_time : costs.forward_time}, std::move(after));
      plan_.about(id, first_block_[j], static_cast<int>(m));
      tasks.push_back(id);
    }
    (backward ? backward_ : forward_).push_back(std::move(tasks));
  }

  // Constraints (5), (6) and (9): the prefetch runs from the predecessor's start, the rest of the
  // upload from its end.
  std::vector<TaskId> loads(bool backward, std::size_t j) {
    const std::size_t before = backward ? j + slots_ : j - slots_;
    const Tasks& predecessor = task_of(backward, before);
    const StageCosts& costs = program_.stages[j];
    const double upload = backward ? costs.backward_upload : costs.forward_upload;
    const double prefetch =
        (backward ? schedule_.backward_prefetch : schedule_.forward_prefetch)[j];
    const std::string name = (backward ? "WB." : "WF.") + std::to_string(j);
    std::vector<TaskId> result;
    if (prefetch > 0) {
      std::vector<TaskId> after = starts_after_[{backward, before}];
      const bool opens = after.empty();
      // What ran on the device before the predecessor did has ended, too.
      const std::size_t earlier = backward ? before + slots_ : before - slots_;
      if (earlier < program_.stages.size()) after.push_back(task_of(backward, earlier).back());
      if (backward && earlier >= program_.stages.size()) after.push_back(last_forward(before));
      const TaskId id = copy(name + ".prefetch", uploads_[device(j)], prefetch, std::move(after));
      if (opens) first_prefetches_.push_back(id);
      result.push_back(id);
    }
    if (upload > prefetch) {
      result.push_back(
          copy(name + ".rest", uploads_[device(j)], upload - prefetch, {predecessor.back()}));
    }
    return result;
  }

  const Tasks& task_of(bool backward, std::size_t j) const {
    return backward ? backward_[program_.stages.size() - 1 - j] : forward_[j];
  }
  // The last forward of the device of stage `j`, which is one of the last N.
  TaskId last_forward(std::size_t j) const { return forward_[j].back(); }

  const MobiusProgram& program_;
  const std::size_t slots_;
  const StageSchedule schedule_;
  TimingPlan plan_;
  Lanes lanes_;
  std::vector<int> first_block_;  // by stage
  std::vector<ResourceId> computes_;
  std::vector<ResourceId> uploads_;
  std::vector<Tasks> forward_;   // by stage
  std::vector<Tasks> backward_;  // the last stage first
  std::map<std::pair<bool, std::size_t>, std::vector<TaskId>> starts_after_;  // of a first task
  std::vector<TaskId> first_prefetches_;
  std::vector<std::pair<TaskId, double>> remainders_;  // micros of fractions of a byte
};

// What moves (Mobius section 3.1), for whatever weights and gradients a profile has.
void add_traffic(PlanReport& report, const MobiusProgram& program) {
  double up = 0;
  double down = 0;
  const std::size_t slots = program.problem.devices;
  for (std::size_t j = 0; j < program.stages.size(); ++j) {
    const StageCosts& stage = program.stages[j];
    up += stage.forward_upload;  // the first N too, once per step
    if (j + slots < program.stages.size()) up += stage.backward_upload;
    down += stage.gradient_download;
  }
  report.figures["traffic_up_bytes"] = up;
  report.figures["traffic_down_bytes"] = down;
}

std::vector<int> stage_devices(const MobiusProgram& program) {
  std::vector<int> devices;
  for (std::size_t j = 0; j < program.stages.size(); ++j) {
    devices.push_back(program.device_of_slot[j % program.device_of_slot.size()]);
  }
  return devices;
}

PlanReport report_of(const PlanQuestion& question, const MobiusProgram& program) {
  const StageSchedule schedule = evaluate_stages(program.problem, program.stages);
  const int stages = static_cast<int>(program.stages.size());
  const std::vector<int> devices = stage_devices(program);
  PlanReport report;
  report.stages = stage_reports(question.machine, program.ends, devices);
  report.mapping = devices;
  double work = 0;
  for (const StageCosts& stage : program.stages) work += stage.forward_time + stage.backward_time;
  const double busy = work * program.problem.micro_batches;
  report.figures["step"] = report.figures["makespan"] = schedule.step;
  report.figures["forward_end"] = schedule.forward_end;
  report.figures["bubble"] = 1 - busy / (program.problem.devices * schedule.step);
  const auto roots = roots_of(question.machine);
  report.figures["contention_degree"] = contention_degree(roots, program.device_of_slot, stages);
  report.figures["contention_degree_sequential"] = contention_degree(
      roots, cyclic_map(program.problem.devices, program.problem.devices), stages);
  for (const char* name : {"staleness_min", "staleness_max", "staleness_mean"}) {
    report.figures[name] = 0;
  }
  add_traffic(report, program);
  add_boundary_traffic(report, program.stages, devices, program.problem.micro_batches);
  report.series["in_flight"].assign(program.stages.size(), program.problem.micro_batches);
  report.series["forward_prefetch"] = schedule.forward_prefetch;
  report.series["backward_prefetch"] = schedule.backward_prefetch;
  for (std::size_t j = 0; j < program.stages.size(); ++j) {
    report.series["forward_start"].push_back(schedule.forward[j].front());
    report.series["backward_start"].push_back(schedule.backward[j].front());
  }
  return report;
}

// What the most demanding stage (or, without plan.stages, block) lacks.
Shortage shortage_of(const PlanQuestion& question, const EvaluatorProblem& problem,
                     const std::vector<StageCosts>& stages) {
  double need = 0;
  for (const StageCosts& stage : stages) {
    need = std::max({need, stage.forward_memory, stage.backward_memory});
  }
  Shortage shortage;
  shortage.place = question.machine.devices[least_device(question)].name;
  shortage.need = {static_cast<std::int64_t>(std::ceil(need))};
  shortage.have = {static_cast<std::int64_t>(problem.memory)};
  shortage.breakdown = {{"the largest stage", shortage.need}};
  return shortage;
}

// In place of the pure program, whose transfers are alone: the same partition on shared links.
Program on_links(const PlanQuestion& question, const MobiusProgram& program) {
  Program answer;
  answer.plan = write_mobius_on_links(question, program);
  answer.prediction = simulate(answer.plan, 2);
  answer.report = report_of(question, program);
  const double step = answer.prediction.step.count;
  auto& figures = answer.report.figures;
  const double pure = figures["step"];
  figures["bubble"] = 1 - (1 - figures["bubble"]) * pure / step;
  figures["step"] = figures["makespan"] = step;
  figures.erase("forward_end");
  for (const char* name :
       {"forward_prefetch", "backward_prefetch", "forward_start", "backward_start"}) {
    answer.report.series.erase(name);  // times and bytes of the pure program
  }
  answer.remark = std::to_string(program.stages.size()) + " stages, on shared links";
  answer.lower_bound = {program.lower_bound};
  return answer;
}

Program pure_program(const PlanQuestion& question, const MobiusProgram& program) {
  Program answer;
  answer.plan = write_mobius_program(program);
  answer.prediction = simulate(answer.plan);
  answer.report = report_of(question, program);
  const double step = answer.report.figures["step"];
  FERRY_CHECK(std::abs(answer.prediction.first_step.count - step) <= kPrecision * step,
              "the simulated program takes as long as the evaluator says");
  answer.remark = std::to_string(program.stages.size()) + " stages";
  answer.lower_bound = {program.lower_bound};
  return answer;
}

}  // namespace

Plan write_mobius_program(const MobiusProgram& program) { return ProgramWriter(program).write(); }

MobiusChoice choose_mobius_program(const PlanQuestion& question) {
  const std::vector<BlockCosts> blocks = profile_costs(question.profile);
  MobiusProgram program;
  program.problem = pure_problem(question);
  if (auto asked = asked_ends(question, static_cast<int>(blocks.size()))) {
    program.ends = std::move(*asked);
    program.lower_bound = partition_lower_bound(program.problem, blocks);
  } else {
    const bool by_mip = question.options.partition == Partitioner::mip;
    const PartitionResult found = by_mip ? mip_partition(program.problem, blocks)
                                         : search_partition(program.problem, blocks, 1);
    if (found.best.empty()) return shortage_of(question, program.problem, blocks);
    program.ends = found.best.front().ends;
    program.lower_bound = found.lower_bound;
  }
  program.stages = stages_of(blocks, program.ends);
  if (!evaluate_stages(program.problem, program.stages).feasible) {
    return shortage_of(question, program.problem, program.stages);
  }
  program.device_of_slot = asked_slots(question, static_cast<int>(program.ends.size()));
  for (const MachineDevice& device : question.machine.devices) {
    program.devices.push_back(device.name);
  }
  return program;
}

ProgramAnswer mobius_program(const PlanQuestion& question) {
  MobiusChoice choice = choose_mobius_program(question);
  if (auto* lacking = std::get_if<Shortage>(&choice)) return std::move(*lacking);
  const MobiusProgram& program = std::get<MobiusProgram>(choice);
  return question.papers.shared_links ? on_links(question, program)
                                      : pure_program(question, program);
}

}  // namespace ferry
