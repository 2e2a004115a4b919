#include "plan/order.h"

#include <algorithm>
#include <functional>
#include <queue>

namespace ferry {
namespace {

// The task before each in its queue, or -1.
std::vector<TaskId> queue_predecessors(const Plan& plan) {
  std::vector<TaskId> last(plan.resources.size(), -1);
  std::vector<TaskId> before(plan.tasks.size());
  for (std::size_t id = 0; id < plan.tasks.size(); ++id) {
    TaskId& previous = last[static_cast<std::size_t>(plan.tasks[id].resource)];
    before[id] = previous;
    previous = static_cast<TaskId>(id);
  }
  return before;
}

// For every task the tasks that wait for it, packed one after the other.
struct Successors {
  std::vector<std::size_t> first;
  std::vector<TaskId> tasks;
};

Successors successors_of(const Plan& plan, const std::vector<TaskId>& queue_before) {
  Successors out;
  out.first.resize(plan.tasks.size() + 1);
  const auto for_each_edge = [&](auto visit) {
    for (std::size_t id = 0; id < plan.tasks.size(); ++id) {
      if (queue_before[id] >= 0) visit(static_cast<std::size_t>(queue_before[id]), id);
      for (const TaskId earlier : plan.tasks[id].after)
        visit(static_cast<std::size_t>(earlier), id);
    }
  };
  for_each_edge([&](std::size_t earlier, std::size_t) { ++out.first[earlier + 1]; });
  for (std::size_t id = 0; id < plan.tasks.size(); ++id) out.first[id + 1] += out.first[id];
  out.tasks.resize(out.first.back());
  auto next = out.first;
  for_each_edge([&](std::size_t earlier, std::size_t later) {
    out.tasks[next[earlier]++] = static_cast<TaskId>(later);
  });
  return out;
}

// A cycle among the tasks that still wait: every one of them has a predecessor that does.
std::vector<TaskId> cycle_among(const Plan& plan, const std::vector<TaskId>& queue_before,
                                const std::vector<std::size_t>& waits) {
  const auto waiting = [&](TaskId id) {
    return id >= 0 && waits[static_cast<std::size_t>(id)] > 0;
  };
  const auto waiting_before = [&](TaskId id) {
    const auto& after = plan.tasks[static_cast<std::size_t>(id)].after;
    const auto found = std::find_if(after.begin(), after.end(), waiting);
    return found != after.end() ? *found : queue_before[static_cast<std::size_t>(id)];
  };
  const auto start = std::find_if(waits.begin(), waits.end(), [](std::size_t n) { return n > 0; });
  auto at = static_cast<TaskId>(start - waits.begin());
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
  std::vector<std::size_t> waits(plan.tasks.size());
  for (const TaskId later : successors.tasks) ++waits[static_cast<std::size_t>(later)];

  std::priority_queue<TaskId, std::vector<TaskId>, std::greater<>> ready;
  for (std::size_t id = 0; id < waits.size(); ++id) {
    if (waits[id] == 0) ready.push(static_cast<TaskId>(id));
  }
  StepOrder order;
  order.tasks.reserve(waits.size());
  while (!ready.empty()) {
    const TaskId id = ready.top();
    ready.pop();
    order.tasks.push_back(id);
    const auto task = static_cast<std::size_t>(id);
    for (std::size_t i = successors.first[task]; i < successors.first[task + 1]; ++i) {
      if (--waits[static_cast<std::size_t>(successors.tasks[i])] == 0) {
        ready.push(successors.tasks[i]);
      }
    }
  }
  if (order.tasks.size() < waits.size()) order.cycle = cycle_among(plan, queue_before, waits);
  return order;
}

Clocks::Clocks(const Plan& plan, const StepOrder& order, int steps) : resources_(0) {
  const std::size_t tasks = plan.tasks.size();
  constexpr auto kNone = static_cast<std::size_t>(-1);
  std::vector<std::size_t> numbered(plan.resources.size(), kNone);
  for (const Task& task : plan.tasks) {
    std::size_t& number = numbered[static_cast<std::size_t>(task.resource)];
    if (number == kNone) number = resources_++;
    resource_.push_back(number);
  }
  const std::size_t runs = tasks * static_cast<std::size_t>(steps);
  position_.resize(runs);
  ticks_.resize(runs * resources_);

  std::vector<RunId> last(resources_, -1);
  for (int step = 0; step < steps; ++step) {
    const RunId first_run = step * static_cast<RunId>(tasks);
    for (const TaskId id : order.tasks) {
      const Task& task = plan.tasks[static_cast<std::size_t>(id)];
      const RunId run = first_run + id;
      const auto index = static_cast<std::size_t>(run);
      const std::size_t row = index * resources_;
      RunId& queue_before = last[resource_of(index)];
      join(row, queue_before);
      for (const TaskId earlier : task.after) join(row, first_run + earlier);
      if (step > 0) {
        for (const TaskId earlier : task.after_previous) {
          join(row, first_run - static_cast<RunId>(tasks) + earlier);
        }
      }
      position_[index] = ++ticks_[row + resource_of(index)];
      queue_before = run;
    }
  }
}

void Clocks::join(std::size_t row, RunId earlier) {
  if (earlier < 0) return;
  const std::size_t other = static_cast<std::size_t>(earlier) * resources_;
  for (std::size_t r = 0; r < resources_; ++r) {
    ticks_[row + r] = std::max(ticks_[row + r], ticks_[other + r]);
  }
}

}  // namespace ferry
