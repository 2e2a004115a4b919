#include "papers/timing/timing_plan.h"

#include <cstddef>
#include <limits>

#include "base/check.h"

namespace ferry {
namespace {}  // namespace

TimingPlan::TimingPlan(const std::string& strategy, int micro_batches, int blocks) {
  plan_.timing_only = true;
  plan_.strategy = strategy;
  plan_.micro_batches = micro_batches;
  plan_.blocks.assign(blocks, PlanBlock{.kind = "block"});
  place("host", PlaceKind::host);
}

void TimingPlan::set_stage(int block, int stage) { plan_.blocks[block].stage = stage; }

PlaceId TimingPlan::place(const std::string& name, PlaceKind kind) {
  constexpr Bytes kUnlimited{std::numeric_limits<std::int64_t>::max()};
  plan_.places.push_back({name, kind, kUnlimited, {}});
  return static_cast<PlaceId>(plan_.places.size()) - 1;
}

PoolId TimingPlan::pool(const std::string& name, double capacity) {
  plan_.pools.push_back({name, capacity});
  return static_cast<PoolId>(plan_.pools.size()) - 1;
}

ResourceId TimingPlan::add_resource(Resource resource) {
  plan_.resources.push_back(std::move(resource));
  return static_cast<ResourceId>(plan_.resources.size()) - 1;
}

ResourceId TimingPlan::compute(const std::string& name, PlaceId place, std::vector<Draw> draws) {
  return add_resource({name, ResourceKind::compute, place, 0, {}, std::move(draws)});
}

ResourceId TimingPlan::worker(const std::string& name, std::vector<Draw> draws) {
  return add_resource({name, ResourceKind::host, host(), 0, {}, std::move(draws)});
}

ResourceId TimingPlan::link(const std::string& name, PlaceId place, double bytes_per_second,
                            std::vector<Draw> draws, Micros latency) {
  return add_resource(
      {name, ResourceKind::copy, place, bytes_per_second, latency, std::move(draws)});
}

TaskId TimingPlan::add(TaskKind kind, const std::string& name, ResourceId queue, Micros micros,
                       const std::vector<TaskId>& after) {
  FERRY_CHECK((kind == TaskKind::copy) == (plan_.resources[queue].kind == ResourceKind::copy),
              name);
  Task task;
  task.name = name;
  task.kind = kind;
  task.resource = queue;
  task.micros = micros;
  task.after.assign(after.begin(), after.end());
  plan_.tasks.push_back(std::move(task));
  return static_cast<TaskId>(plan_.tasks.size()) - 1;
}

TaskId TimingPlan::copy(const std::string& name, ResourceId link, Bytes bytes,
                        const std::vector<TaskId>& after) {
  const TaskId id = add(TaskKind::copy, name, link, {}, after);
  plan_.tasks.back().bytes = bytes;
  return id;
}

void TimingPlan::about(TaskId task, int block, int micro_batch) {
  plan_.tasks[task].block = block;
  plan_.tasks[task].micro_batch = micro_batch;
}

void TimingPlan::wait_for(TaskId task, TaskId earlier) {
  plan_.tasks[task].after.push_back(earlier);
}

void TimingPlan::wait_for_previous(TaskId task, TaskId earlier) {
  plan_.tasks[task].after_previous.push_back(earlier);
}

Plan TimingPlan::finish() { return std::move(plan_); }

}  // namespace ferry
