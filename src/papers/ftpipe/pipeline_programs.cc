#include "papers/ftpipe/pipeline_programs.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "papers/ftpipe/asked_orders.h"
#include "papers/ftpipe/steady_order.h"
#include "papers/timing/block_costs.h"
#include "papers/timing/program_stages.h"
#include "papers/timing/timing_plan.h"
#include "planner/cuts/asked_stages.h"
#include "planner/orders/orders.h"

namespace ferry {
namespace {

constexpr double kStateBytes = 10;  // per parameter: lo16, m and v of a bf16 weight

// A question's pipeline, its stages and what they cost.
struct CutPipeline {
  Pipeline pipeline;
  std::vector<int> ends;
  std::vector<StageCosts> costs;
};

// plan.devices, if given, names one for every stage.
std::vector<int> one_device_each(const PlanQuestion& question, std::size_t stages) {
  const auto& asked = question.options.devices;
  if (asked && asked->size() != stages) {
    throw JobKeyError("plan.devices", "expected a device for each of the " +
                                          std::to_string(stages) + " stages, found " +
                                          std::to_string(asked->size()));
  }
  return asked_map(question, static_cast<int>(stages));
}

CutPipeline program_of(const PlanQuestion& question, int chunks) {
  CutPipeline program;
  program.pipeline.devices = static_cast<int>(question.machine.devices.size());
  program.pipeline.micro_batches = question.micro_batches;
  program.ends = asked_or_even_ends(question, program.pipeline.devices * chunks);
  program.costs = stages_of(profile_costs(question.profile), program.ends);
  program.pipeline.device = one_device_each(question, program.ends.size());
  for (const StageCosts& stage : program.costs) {
    program.pipeline.forward.push_back(stage.forward_time);
    program.pipeline.backward.push_back(stage.backward_time);
  }
  return program;
}

std::string task_name(const PipelineTask& task) {
  return (task.backward ? "B." : "F.") + std::to_string(task.stage) + "." +
         std::to_string(task.micro_batch);
}

// The task that hands `task` its input; none for the first forward.
std::optional<PipelineTask> input_of(const Pipeline& pipeline, const PipelineTask& task) {
  if (!task.backward) {
    if (task.stage == 0) return std::nullopt;
    return PipelineTask{false, task.stage - 1, task.micro_batch};
  }
  const bool last = task.stage + 1 == pipeline.stages();
  return PipelineTask{!last, last ? task.stage : task.stage + 1, task.micro_batch};
}

// Writes a program's tasks; edges are the caller's.
class Writer {
 public:
  Writer(const std::string& strategy, const PlanQuestion& question, const CutPipeline& program,
         int micro_batches)
      : program_(program), plan_(strategy, micro_batches, program.ends.back()) {
    int first = 0;
    for (std::size_t s = 0; s < program.ends.size(); ++s) {
      first_block_.push_back(first);
      for (; first < program.ends[s]; ++first) plan_.set_stage(first, static_cast<int>(s));
    }
    for (const MachineDevice& device : question.machine.devices) {
      const PlaceId place = plan_.place(device.name, PlaceKind::device);
      computes_.push_back(plan_.compute(device.name + ".compute", place));
    }
  }

  TaskId add(const PipelineTask& task) {
    const Pipeline& pipeline = program_.pipeline;
    const std::size_t s = task.stage;
    const TaskId id = plan_.add(task.backward ? TaskKind::backward : TaskKind::forward,
                                task_name(task), computes_[pipeline.device[s]],
                                {task.backward ? pipeline.backward[s] : pipeline.forward[s]});
    plan_.about(id, first_block_[s], task.micro_batch);
    ids_[task] = id;
    return id;
  }
  TaskId id(const PipelineTask& task) const { return ids_.at(task); }
  TimingPlan& plan() { return plan_; }

 private:
  const CutPipeline& program_;
  TimingPlan plan_;
  std::vector<int> first_block_;  // by stage
  std::vector<ResourceId> computes_;
  std::map<PipelineTask, TaskId> ids_;
};

Plan write_orders(const std::string& strategy, const PlanQuestion& question,
                  const CutPipeline& program, const DeviceOrders& orders) {
  Writer writer(strategy, question, program, question.micro_batches);
  for (const PipelineTask& task : sequence_of(program.pipeline, orders)) {
    const TaskId id = writer.add(task);
    if (const auto input = input_of(program.pipeline, task)) {
      writer.plan().wait_for(id, writer.id(*input));
    }
  }
  return writer.plan().finish();
}

// One step of a steady order: `periods` of them. What a task waits for may be of the step before.
Plan write_steady(const std::string& strategy, const PlanQuestion& question,
                  const CutPipeline& program, const SteadyOrder& order, int periods) {
  Writer writer(strategy, question, program, periods);
  std::map<std::pair<bool, int>, int> lags;
  for (const auto& tasks : order) {
    for (const SteadyTask& task : tasks) lags[{task.backward, task.stage}] = task.lag;
  }
  const auto micro_batch = [&](int period, int lag) {
    return ((period - lag) % periods + periods) % periods;
  };
  for (int k = 0; k < periods; ++k) {
    for (const auto& tasks : order) {
      for (const SteadyTask& task : tasks) {
        writer.add({task.backward, task.stage, micro_batch(k, task.lag)});
      }
    }
  }
  for (int k = 0; k < periods; ++k) {
    for (const auto& tasks : order) {
      for (const SteadyTask& steady : tasks) {
        const PipelineTask task{steady.backward, steady.stage, micro_batch(k, steady.lag)};
        const auto input = input_of(program.pipeline, task);
        if (!input) continue;
        const int behind = steady.lag - lags.at({input->backward, input->stage});
        if (behind <= k) {
          writer.plan().wait_for(writer.id(task), writer.id(*input));
        } else {
          writer.plan().wait_for_previous(writer.id(task), writer.id(*input));
        }
      }
    }
  }
  return writer.plan().finish();
}

// Weights, gradients and states stay on the device, beside the inputs in flight and the largest
// workspace.
std::vector<double> device_bytes(const PlanQuestion& question, const CutPipeline& program,
                                 const std::vector<int>& in_flight) {
  const Profile& profile = question.profile;
  const Pipeline& pipeline = program.pipeline;
  std::vector<double> bytes(pipeline.devices, 0.0);
  std::vector<double> workspace = bytes;
  int first = 0;
  for (std::size_t s = 0; s < program.ends.size(); ++s) {
    const std::size_t d = pipeline.device[s];
    const StageCosts& stage = program.costs[s];
    double resident = stage.forward_upload + stage.gradient_download;
    workspace[d] = std::max(workspace[d], stage.backward_memory - resident);
    for (; first < program.ends[s]; ++first) {
      const int block = profile.chain[first];
      resident += kStateBytes * static_cast<double>(profile.blocks[block].parameters);
    }
    if (s > 0) resident += in_flight[s] * program.costs[s - 1].activation;
    bytes[d] += resident;
  }
  for (std::size_t d = 0; d < bytes.size(); ++d) bytes[d] += workspace[d];
  return bytes;
}

std::vector<double> as_series(const std::vector<int>& counts) {
  return {counts.begin(), counts.end()};
}

void report_stages(PlanReport& report, const PlanQuestion& question, const CutPipeline& program,
                   const std::vector<int>& in_flight) {
  report.stages = stage_reports(question.machine, program.ends, program.pipeline.device);
  report.mapping = program.pipeline.device;
  report.series["in_flight"] = as_series(in_flight);
  report.series["device_bytes"] = device_bytes(question, program, in_flight);
  add_boundary_traffic(report, program.costs, program.pipeline.device, question.micro_batches);
}

// Staleness by stage, and over all stages.
void report_staleness(PlanReport& report, const std::vector<Staleness>& stages) {
  auto& least = report.series["staleness_min"];
  auto& most = report.series["staleness_max"];
  auto& mean = report.series["staleness_mean"];
  for (const Staleness& stage : stages) {
    least.push_back(stage.least);
    most.push_back(stage.most);
    mean.push_back(stage.mean);
  }
  report.figures["staleness_min"] = *std::min_element(least.begin(), least.end());
  report.figures["staleness_max"] = *std::max_element(most.begin(), most.end());
  report.figures["staleness_mean"] =
      std::accumulate(mean.begin(), mean.end(), 0.0) / static_cast<double>(mean.size());
}

// Every device's share of the work, and one micro-batch's way through the chain.
Micros work_bound(const Pipeline& pipeline, bool flushes) {
  double chain = 0;
  for (std::size_t s = 0; s < pipeline.device.size(); ++s) {
    chain += pipeline.forward[s] + pipeline.backward[s];
  }
  const double share = pipeline.micro_batches * chain / pipeline.devices;
  return {flushes ? std::max(share, chain) : share};
}

std::string remark_of(const CutPipeline& program) {
  return std::to_string(program.ends.size()) + " stages";
}

ProgramAnswer synchronous(const std::string& strategy, const PlanQuestion& question, OrderRule rule,
                          int chunks) {
  const CutPipeline program = program_of(question, chunks);
  const DeviceOrders orders = question.papers.order ? asked_orders(question, program.pipeline)
                                                    : order_of(rule, program.pipeline);
  Program answer;
  answer.plan = write_orders(strategy, question, program, orders);
  answer.prediction = simulate(answer.plan);
  answer.remark = remark_of(program);
  answer.lower_bound = work_bound(program.pipeline, true);
  const double makespan = earliest_times(program.pipeline, orders).makespan;
  PlanReport& report = answer.report;
  report_stages(report, question, program, stages_in_flight(program.pipeline, orders));
  report.series["device_in_flight"] = as_series(devices_in_flight(program.pipeline, orders));
  report_staleness(report, std::vector<Staleness>(program.ends.size()));
  report.figures["makespan"] = makespan;
  report.figures["bubble"] = 1 - efficiency(program.pipeline, makespan);
  return answer;
}

int asked_chunks(const PlanQuestion& question, int otherwise) {
  return question.options.chunks > 0 ? question.options.chunks : otherwise;
}

// A steady order, and the planned times that it comes from, if it does.
struct SteadySchedule {
  SteadyOrder order;
  std::optional<PeriodicResult> planned;
};

PeriodicOrder searched_period(const CutPipeline& program) {
  PeriodicSearch search;
  search.input_bytes.assign(program.costs.size(), 0.0);
  double total = 0;
  for (std::size_t s = 1; s < program.costs.size(); ++s) {
    total += search.input_bytes[s] = program.costs[s - 1].activation;
  }
  if (total <= 0) search.input_bytes.clear();
  return search_periodic(program.pipeline, search);
}

SteadySchedule steady_schedule(const PlanQuestion& question, const CutPipeline& program) {
  const Pipeline& pipeline = program.pipeline;
  const int window = question.papers.window;
  const bool asked = question.papers.order.has_value();
  if (question.papers.offsets && !asked) {
    throw JobKeyError("papers.offsets", "where tasks of papers.order begin, which is not given");
  }
  if (!asked && one_stage_per_device(pipeline)) {
    return {steady_one_f_one_b(pipeline, window), std::nullopt};
  }
  if (window > 0) {
    throw JobKeyError("papers.window",
                      "a planned order of devices with several stages, or papers.order, has a "
                      "window of its own; expected one stage per device, or no window");
  }
  const PeriodicResult planned = evaluate_periodic(
      pipeline, asked ? asked_period(question, pipeline) : searched_period(program));
  return {steady_periodic(pipeline, planned), planned};
}

// What the order does in the steady state, and with the micro-batches of one step alone.
void report_steady(PlanReport& report, const PlanQuestion& question, const CutPipeline& program,
                   const SteadySchedule& schedule) {
  const Pipeline& pipeline = program.pipeline;
  const std::vector<int> in_flight = steady_in_flight(pipeline, schedule.order);
  report_stages(report, question, program, in_flight);
  std::vector<double>& device_held = report.series["device_in_flight"];
  device_held.assign(pipeline.devices, 0.0);
  std::vector<Staleness> staleness;
  for (std::size_t s = 0; s < in_flight.size(); ++s) {
    device_held[pipeline.device[s]] += in_flight[s];
    staleness.push_back(steady_staleness(in_flight[s] - 1, pipeline.micro_batches));
  }
  report_staleness(report, staleness);
  const DeviceOrders alone = filled_and_drained(pipeline, schedule.order);
  const double makespan = earliest_times(pipeline, alone).makespan;
  report.figures["makespan"] = makespan;
  report.figures["bubble_first"] = 1 - efficiency(pipeline, makespan);
  if (!schedule.planned) return;
  report.figures["latency_planned"] = schedule.planned->latency;
  report.figures["makespan_planned"] = periodic_makespan(pipeline, *schedule.planned);
}

}  // namespace

ProgramAnswer gpipe_program(const PlanQuestion& question) {
  return synchronous("gpipe", question, OrderRule::gpipe, asked_chunks(question, 1));
}

ProgramAnswer one_f_one_b_program(const PlanQuestion& question) {
  return synchronous("1f1b", question, OrderRule::one_f_one_b, asked_chunks(question, 1));
}

ProgramAnswer interleaved_program(const PlanQuestion& question) {
  return synchronous("interleaved", question, OrderRule::interleaved, asked_chunks(question, 2));
}

ProgramAnswer async_one_f_one_b_program(const PlanQuestion& question) {
  const CutPipeline program = program_of(question, asked_chunks(question, 1));
  const Pipeline& pipeline = program.pipeline;
  const SteadySchedule schedule = steady_schedule(question, program);
  const SteadyOrder& order = schedule.order;
  // A task may wait for one of the step before, not for older ones.
  const int lag = std::max(1, longest_lag(pipeline, order));
  const int steps = (lag + pipeline.micro_batches - 1) / pipeline.micro_batches;
  const std::vector<int> in_flight = steady_in_flight(pipeline, order);
  const int deepest = *std::max_element(in_flight.begin(), in_flight.end());

  Program answer;
  answer.plan =
      write_steady("async-1f1b", question, program, order, steps * pipeline.micro_batches);
  // Until the pipeline is full, backwards of micro-batches that never were run empty.
  answer.prediction = simulate(answer.plan, 4 + 3 * deepest / (steps * pipeline.micro_batches));
  answer.remark = remark_of(program);
  answer.lower_bound = work_bound(pipeline, false);
  const double step = answer.prediction.step.count / steps;
  answer.prediction.step = {step};
  answer.prediction.busiest = answer.prediction.busiest * (1.0 / steps);

  PlanReport& report = answer.report;
  report.figures["steps_in_plan"] = steps;
  report.figures["step"] = step;
  report.figures["bubble"] = 1 - efficiency(pipeline, step);
  report_steady(report, question, program, schedule);
  return answer;
}

}  // namespace ferry
