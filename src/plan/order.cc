#include "plan/order.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <queue>
#include <span>

namespace ferry {
namespace {

// The task before each in its queue, or none.
IdVector<TaskId, TaskId> queue_predecessors(const Plan& plan) {
  IdVector<ResourceId, TaskId> last(plan.resources.size());
  IdVector<TaskId, TaskId> before(plan.tasks.size());
  for (const TaskId id : plan.tasks.ids()) {
    TaskId& previous = last[plan.tasks[id].resource];
    before[id] = previous;
    previous = id;
  }
  return before;
}

// For every task the tasks that wait for it, packed one after the other.
struct Successors {
  struct Range {
    std::size_t begin = 0, end = 0;
  };

  std::span<const TaskId> of(TaskId id) const {
    return std::span(tasks).subspan(ranges[id].begin, ranges[id].end - ranges[id].begin);
  }

  IdVector<TaskId, Range> ranges;
  std::vector<TaskId> tasks;
};

Successors successors_of(const Plan& plan, const IdVector<TaskId, TaskId>& queue_before) {
  Successors out;
  out.ranges.resize(plan.tasks.size());
  const auto for_each_edge = [&](auto visit) {
    for (const TaskId id : plan.tasks.ids()) {
      if (queue_before[id].valid()) visit(queue_before[id], id);
      for (const TaskId earlier : plan.tasks[id].after) visit(earlier, id);
    }
  };
  for_each_edge([&](TaskId earlier, TaskId) { ++out.ranges[earlier].end; });
  std::size_t total = 0;
  for (Successors::Range& range : out.ranges) {
    range.begin = total;
    total += range.end;
    range.end = range.begin;
  }
  out.tasks.resize(total);
  for_each_edge(
      [&](TaskId earlier, TaskId later) { out.tasks[out.ranges[earlier].end++] = later; });
  return out;
}

// A cycle among the tasks that still wait: every one of them has a predecessor that does.
std::vector<TaskId> cycle_among(const Plan& plan, const IdVector<TaskId, TaskId>& queue_before,
                                const IdVector<TaskId, std::size_t>& waits) {
  const auto waiting = [&](TaskId id) { return waits[id] > 0; };
  const auto waiting_before = [&](TaskId id) {
    const auto& after = plan.tasks[id].after;
    const auto found = std::find_if(after.begin(), after.end(), waiting);
    return found != after.end() ? *found : queue_before[id];
  };
  TaskId at(0);
  while (!waiting(at)) ++at;
  for (std::size_t i = 0; i < waits.size(); ++i) at = waiting_before(at);  // now on the cycle
  std::vector<TaskId> cycle = {at};
  for (TaskId id = waiting_before(at); id != at; id = waiting_before(id)) cycle.push_back(id);
  std::reverse(cycle.begin(), cycle.end());
  std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
  return cycle;
}

}  // namespace

StepOrder order_step(const Plan& plan) {
  const auto queue_before = queue_predecessors(plan);
  const Successors successors = successors_of(plan, queue_before);
  IdVector<TaskId, std::size_t> waits(plan.tasks.size());
  for (const TaskId later : successors.tasks) ++waits[later];

  std::priority_queue<TaskId, std::vector<TaskId>, std::greater<>> ready;
  for (const TaskId id : waits.ids()) {
    if (waits[id] == 0) ready.push(id);
  }
  StepOrder order;
  order.tasks.reserve(waits.size());
  while (!ready.empty()) {
    const TaskId id = ready.top();
    ready.pop();
    order.tasks.push_back(id);
    for (const TaskId later : successors.of(id)) {
      if (--waits[later] == 0) ready.push(later);
    }
  }
  if (order.tasks.size() < waits.size()) order.cycle = cycle_among(plan, queue_before, waits);
  return order;
}

Clocks::Clocks(const Plan& plan, const StepOrder& order, int steps) : resources_(0) {
  IdVector<ResourceId, std::optional<std::size_t>> numbered(plan.resources.size());
  for (const Task& task : plan.tasks) {
    auto& number = numbered[task.resource];
    if (!number) number = resources_++;
    resource_.push_back(*number);
  }
  const RunIds runs(plan);
  position_.resize(runs.of(steps, TaskId(0)).index());
  ticks_.resize(position_.size() * resources_);

  std::vector<RunId> last(resources_);
  for (int step = 0; step < steps; ++step) {
    for (const TaskId id : order.tasks) {
      const Task& task = plan.tasks[id];
      const RunId run = runs.of(step, id);
      RunId& queue_before = last[resource_of(run)];
      join(run, queue_before);
      for (const TaskId earlier : task.after) join(run, runs.of(step, earlier));
      if (step > 0) {
        for (const TaskId earlier : task.after_previous) join(run, runs.of(step - 1, earlier));
      }
      position_[run] = ++ticks_[row_of(run) + resource_of(run)];
      queue_before = run;
    }
  }
}

void Clocks::join(RunId run, RunId earlier) {
  if (!earlier.valid()) return;
  const std::size_t row = row_of(run);
  const std::size_t other = row_of(earlier);
  for (std::size_t r = 0; r < resources_; ++r) {
    ticks_[row + r] = std::max(ticks_[row + r], ticks_[other + r]);
  }
}

}  // namespace ferry
