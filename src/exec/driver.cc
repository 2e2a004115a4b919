#include "exec/driver.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"

namespace ferry {
namespace {

// Counters of three steps exist at a time: the two in flight, and the next one, which the younger
// of them already counts down through `after_previous`.
constexpr int kSteps = 3;

// In `Dispatcher::waits_`: what a task that no longer waits has come to.
constexpr std::int32_t kStarted = -1;
constexpr std::int32_t kFinished = -2;

int slot_of(int step) { return step % kSteps; }

// A task that waits for another: of the same step, or of the next one.
struct Follower {
  TaskId task;
  int later_steps = 0;
};

// For every task its followers, packed one after the other.
class Followers {
 public:
  struct Edge {
    TaskId earlier;
    Follower later;
  };

  Followers(std::size_t tasks, const std::vector<Edge>& edges)
      : ranges_(tasks), followers_(edges.size()) {
    for (const Edge& edge : edges) ++ranges_[edge.earlier].end;
    std::size_t total = 0;
    for (Range& range : ranges_) {
      range.begin = total;
      total += range.end;
      range.end = range.begin;
    }
    for (const Edge& edge : edges) followers_[ranges_[edge.earlier].end++] = edge.later;
  }

  std::span<const Follower> of(TaskId task) const {
    const Range& range = ranges_[task];
    return std::span(followers_).subspan(range.begin, range.end - range.begin);
  }

 private:
  struct Range {
    std::size_t begin = 0, end = 0;
  };

  IdVector<TaskId, Range> ranges_;
  std::vector<Follower> followers_;
};

// The dependencies that are met when the earlier task starts, and those met when it is finished.
struct Dependencies {
  Followers at_start;
  Followers at_finish;
};

Dependencies dependencies_of(const Plan& plan, const TaskRunner& runner) {
  std::vector<Followers::Edge> at_start;
  std::vector<Followers::Edge> at_finish;
  for (const TaskId id : plan.tasks.ids()) {
    const Task& later = plan.tasks[id];
    const auto add = [&](TaskId earlier, int later_steps) {
      const Task& first = plan.tasks[earlier];
      auto& edges = runner.orders(first, later) ? at_start : at_finish;
      edges.push_back({earlier, {id, later_steps}});
    };
    for (const TaskId earlier : later.after) add(earlier, 0);
    for (const TaskId earlier : later.after_previous) add(earlier, 1);
  }
  return {{plan.tasks.size(), at_start}, {plan.tasks.size(), at_finish}};
}

// One resource's tasks in plan order, and the one to start next.
struct Queue {
  std::vector<TaskId> tasks;
  std::size_t next = 0;
  int step = 0;
  bool listed = false;  // stands in Dispatcher::candidates_
};

class Dispatcher {
 public:
  Dispatcher(const Plan& plan, StepRange steps, TaskRunner& runner, Observer& observer);

  int run();

 private:
  void list(ResourceId queue);
  bool start_next(ResourceId queue);
  bool admits(int step);
  void start_candidates();
  void start(TaskRun run);
  void finish(TaskRun run);
  void count_down(const Followers& followers, TaskRun run);
  void end_finished_steps();
  std::string first_waiting() const;

  const Plan& plan_;
  TaskRunner& runner_;
  const bool takes_one_each_;
  Observer& observer_;
  const Dependencies dependencies_;

  IdVector<ResourceId, Queue> queues_;
  IdVector<TaskId, ResourceId> queue_of_;
  std::vector<ResourceId> candidates_;  // queues whose next task may have become ready
  std::vector<ResourceId> refused_;     // queues whose next task the runner could not take

  using Waits = IdVector<TaskId, std::int32_t>;
  Waits all_waits_;      // dependencies, those on the step before too
  Waits waits_[kSteps];  // dependencies not met, kStarted, kFinished
  std::size_t unfinished_[kSteps] = {};

  const int first_step_;
  int end_step_;     // one past the last step to run
  int begun_end_;    // one past the last step to begin
  int asked_step_;   // one past the last step that the observer wanted
  int oldest_step_;  // the first step that is not finished
  std::size_t in_flight_ = 0;
};

Dispatcher::Dispatcher(const Plan& plan, StepRange steps, TaskRunner& runner, Observer& observer)
    : plan_(plan),
      runner_(runner),
      takes_one_each_(runner.takes_one_each()),
      observer_(observer),
      dependencies_(dependencies_of(plan, runner)),
      queues_(plan.resources.size()),
      first_step_(steps.first),
      end_step_(steps.first + steps.count),
      begun_end_(end_step_ + (steps.begins_next ? 1 : 0)),
      asked_step_(steps.first),
      oldest_step_(steps.first) {
  auto& first_waits = waits_[slot_of(first_step_)];
  for (const TaskId id : plan.tasks.ids()) {
    const Task& task = plan.tasks[id];
    queues_[task.resource].tasks.push_back(id);
    queue_of_.push_back(task.resource);
    first_waits.push_back(static_cast<std::int32_t>(task.after.size()));
    all_waits_.push_back(first_waits.back() +
                         static_cast<std::int32_t>(task.after_previous.size()));
  }
  waits_[slot_of(first_step_ + 1)] = all_waits_;
  waits_[slot_of(first_step_ + 2)] = all_waits_;
  for (std::size_t& unfinished : unfinished_) unfinished = plan.tasks.size();
  for (const ResourceId queue : queues_.ids()) {
    queues_[queue].step = first_step_;
    list(queue);
  }
}

void Dispatcher::list(ResourceId queue) {
  if (queues_[queue].listed || queues_[queue].tasks.empty()) return;
  queues_[queue].listed = true;
  candidates_.push_back(queue);
}

// Whether tasks of `step` may start now. The observer is asked when the first of them could.
bool Dispatcher::admits(int step) {
  if (step < asked_step_) return true;
  if (!observer_.wants_step(step)) {
    begun_end_ = step;
    end_step_ = std::min(end_step_, step);
    return false;
  }
  asked_step_ = step + 1;
  return true;
}

// Starts the queue's next task if it may run now; returns whether it did.
bool Dispatcher::start_next(ResourceId resource) {
  Queue& queue = queues_[resource];
  if (queue.step >= begun_end_ || queue.step > oldest_step_ + 1) return false;
  const TaskRun run{queue.step, queue.tasks[queue.next]};
  if (waits_[slot_of(run.step)][run.task] != 0) return false;
  if (!runner_.can_start(plan_.tasks[run.task])) {
    if (!takes_one_each_) refused_.push_back(resource);
    return false;
  }
  if (!admits(run.step)) return false;
  if (++queue.next == queue.tasks.size()) {
    queue.next = 0;
    ++queue.step;
  }
  start(run);
  return true;
}

void Dispatcher::start_candidates() {
  // A start may append further candidates.
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const ResourceId queue = candidates_[i];
    queues_[queue].listed = false;
    while (start_next(queue)) {
    }
  }
  candidates_.clear();
}

void Dispatcher::start(TaskRun run) {
  waits_[slot_of(run.step)][run.task] = kStarted;
  runner_.start(run, plan_.tasks[run.task]);
  ++in_flight_;
  observer_.started(run);
  count_down(dependencies_.at_start, run);
}

void Dispatcher::finish(TaskRun run) {
  const bool known =
      run.step >= oldest_step_ && run.step <= oldest_step_ + 1 && plan_.tasks.has(run.task);
  FERRY_CHECK(known, "the runner reported a task that does not run");
  auto& state = waits_[slot_of(run.step)][run.task];
  FERRY_CHECK(state == kStarted, "the runner reported a task that does not run");
  state = kFinished;
  --in_flight_;
  --unfinished_[slot_of(run.step)];
  observer_.finished(run);
  count_down(dependencies_.at_finish, run);
  list(queue_of_[run.task]);
  for (const ResourceId queue : refused_) list(queue);
  refused_.clear();
  end_finished_steps();
}

void Dispatcher::count_down(const Followers& followers, TaskRun run) {
  for (const Follower& later : followers.of(run.task)) {
    auto& waits = waits_[slot_of(run.step + later.later_steps)];
    if (--waits[later.task] == 0) list(queue_of_[later.task]);
  }
}

void Dispatcher::end_finished_steps() {
  while (unfinished_[slot_of(oldest_step_)] == 0) {
    const int ended = oldest_step_++;
    waits_[slot_of(ended)] = all_waits_;
    unfinished_[slot_of(ended)] = plan_.tasks.size();
    for (const ResourceId queue : queues_.ids()) list(queue);
    observer_.step_finished(ended);
  }
}

std::string Dispatcher::first_waiting() const {
  const auto& waits = waits_[slot_of(oldest_step_)];
  for (const TaskId id : waits.ids()) {
    if (waits[id] >= 0) return "task '" + plan_.tasks[id].name + "' waits for ever";
  }
  return "a step waits for ever";
}

int Dispatcher::run() {
  while (true) {
    start_candidates();
    if (in_flight_ == 0 || oldest_step_ >= end_step_) break;
    finish(runner_.wait_any());
  }
  // The range is done; or nothing runs and nothing may start, since the plan has a cycle, or the
  // runner refused a task although nothing was in flight.
  FERRY_CHECK(oldest_step_ >= end_step_, first_waiting());
  if (in_flight_ > 0) runner_.drain();
  return oldest_step_ - first_step_;
}

}  // namespace

int drive(const Plan& plan, StepRange steps, TaskRunner& runner, Observer& observer) {
  FERRY_CHECK(!plan.tasks.empty(), "a plan without tasks cannot be driven");
  Dispatcher dispatcher(plan, steps, runner, observer);
  try {
    return dispatcher.run();
  } catch (...) {
    runner.drain();
    throw;
  }
}

}  // namespace ferry
