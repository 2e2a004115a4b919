#include "exec/driver.h"

#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"

namespace ferry {
namespace {

// Counters of three steps exist at a time: the two in flight, and the next one, which the younger
// of them already counts down through `after_previous`.
constexpr std::size_t kSteps = 3;

// In `Dispatcher::waits_`: what a task that no longer waits has come to.
constexpr std::int32_t kStarted = -1;
constexpr std::int32_t kFinished = -2;

std::size_t slot_of(int step) { return static_cast<std::size_t>(step) % kSteps; }

// A task that waits for another: of the same step, or of the next one.
struct Follower {
  TaskId task = -1;
  int later_steps = 0;
};

// For every task its followers, packed one after the other.
class Followers {
 public:
  struct Edge {
    TaskId earlier = -1;
    Follower later;
  };

  Followers(std::size_t tasks, const std::vector<Edge>& edges)
      : first_(tasks + 1), followers_(edges.size()) {
    for (const Edge& edge : edges) ++first_[static_cast<std::size_t>(edge.earlier) + 1];
    for (std::size_t task = 0; task < tasks; ++task) first_[task + 1] += first_[task];
    auto next = first_;
    for (const Edge& edge : edges) {
      followers_[next[static_cast<std::size_t>(edge.earlier)]++] = edge.later;
    }
  }

  const Follower* begin(std::size_t task) const { return followers_.data() + first_[task]; }
  const Follower* end(std::size_t task) const { return followers_.data() + first_[task + 1]; }

 private:
  std::vector<std::size_t> first_;  // by task, and one past the end
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
  for (std::size_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& later = plan.tasks[id];
    const auto add = [&](TaskId earlier, int later_steps) {
      const Task& first = plan.tasks[static_cast<std::size_t>(earlier)];
      auto& edges = runner.orders(first, later) ? at_start : at_finish;
      edges.push_back({earlier, {static_cast<TaskId>(id), later_steps}});
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
  void list(std::size_t queue);
  bool start_next(std::size_t queue);
  bool admits(int step);
  void start_candidates();
  void start(TaskRun run);
  void finish(TaskRun run);
  void count_down(const Followers& followers, TaskRun run);
  void end_finished_steps();
  std::string first_waiting() const;

  const Plan& plan_;
  TaskRunner& runner_;
  Observer& observer_;
  const Dependencies dependencies_;

  std::vector<Queue> queues_;            // by resource
  std::vector<std::size_t> queue_of_;    // by task
  std::vector<std::size_t> candidates_;  // queues whose next task may have become ready
  std::vector<std::size_t> refused_;     // queues whose next task the runner could not take

  std::vector<std::int32_t> all_waits_;      // by task: dependencies, those on the step before too
  std::vector<std::int32_t> waits_[kSteps];  // by task: dependencies not met, kStarted, kFinished
  std::size_t unfinished_[kSteps] = {};

  const int first_step_;
  int end_step_;     // one past the last step to run
  int asked_step_;   // one past the last step that the observer wanted
  int oldest_step_;  // the first step that is not finished
  std::size_t in_flight_ = 0;
};

Dispatcher::Dispatcher(const Plan& plan, StepRange steps, TaskRunner& runner, Observer& observer)
    : plan_(plan),
      runner_(runner),
      observer_(observer),
      dependencies_(dependencies_of(plan, runner)),
      queues_(plan.resources.size()),
      first_step_(steps.first),
      end_step_(steps.first + steps.count),
      asked_step_(steps.first),
      oldest_step_(steps.first) {
  auto& first_waits = waits_[slot_of(first_step_)];
  for (std::size_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& task = plan.tasks[id];
    queue_of_.push_back(static_cast<std::size_t>(task.resource));
    queues_[queue_of_.back()].tasks.push_back(static_cast<TaskId>(id));
    first_waits.push_back(static_cast<std::int32_t>(task.after.size()));
    all_waits_.push_back(first_waits.back() +
                         static_cast<std::int32_t>(task.after_previous.size()));
  }
  waits_[slot_of(first_step_ + 1)] = all_waits_;
  waits_[slot_of(first_step_ + 2)] = all_waits_;
  for (std::size_t& unfinished : unfinished_) unfinished = plan.tasks.size();
  for (std::size_t queue = 0; queue < queues_.size(); ++queue) {
    queues_[queue].step = first_step_;
    list(queue);
  }
}

void Dispatcher::list(std::size_t queue) {
  if (queues_[queue].listed || queues_[queue].tasks.empty()) return;
  queues_[queue].listed = true;
  candidates_.push_back(queue);
}

// Whether tasks of `step` may start now. The observer is asked when the first of them could.
bool Dispatcher::admits(int step) {
  if (step < asked_step_) return true;
  if (!observer_.wants_step(step)) {
    end_step_ = step;
    return false;
  }
  asked_step_ = step + 1;
  return true;
}

// Starts the queue's next task if it may run now; returns whether it did.
bool Dispatcher::start_next(std::size_t index) {
  Queue& queue = queues_[index];
  if (queue.step >= end_step_ || queue.step > oldest_step_ + 1) return false;
  const TaskRun run{queue.step, queue.tasks[queue.next]};
  const auto task = static_cast<std::size_t>(run.task);
  if (waits_[slot_of(run.step)][task] != 0) return false;
  if (!runner_.can_start(plan_.tasks[task])) {
    refused_.push_back(index);
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
    const std::size_t queue = candidates_[i];
    queues_[queue].listed = false;
    while (start_next(queue)) {
    }
  }
  candidates_.clear();
}

void Dispatcher::start(TaskRun run) {
  const auto task = static_cast<std::size_t>(run.task);
  waits_[slot_of(run.step)][task] = kStarted;
  runner_.start(run, plan_.tasks[task]);
  ++in_flight_;
  observer_.started(run);
  count_down(dependencies_.at_start, run);
}

void Dispatcher::finish(TaskRun run) {
  const bool known = run.step >= oldest_step_ && run.step <= oldest_step_ + 1 && run.task >= 0 &&
                     static_cast<std::size_t>(run.task) < plan_.tasks.size();
  FERRY_CHECK(known, "the runner reported a task that does not run");
  auto& state = waits_[slot_of(run.step)][static_cast<std::size_t>(run.task)];
  FERRY_CHECK(state == kStarted, "the runner reported a task that does not run");
  state = kFinished;
  --in_flight_;
  --unfinished_[slot_of(run.step)];
  observer_.finished(run);
  count_down(dependencies_.at_finish, run);
  list(queue_of_[static_cast<std::size_t>(run.task)]);
  for (const std::size_t queue : refused_) list(queue);
  refused_.clear();
  end_finished_steps();
}

void Dispatcher::count_down(const Followers& followers, TaskRun run) {
  const auto task = static_cast<std::size_t>(run.task);
  for (const Follower* later = followers.begin(task); later != followers.end(task); ++later) {
    auto& waits = waits_[slot_of(run.step + later->later_steps)];
    const auto follower = static_cast<std::size_t>(later->task);
    if (--waits[follower] == 0) list(queue_of_[follower]);
  }
}

void Dispatcher::end_finished_steps() {
  while (unfinished_[slot_of(oldest_step_)] == 0) {
    const int ended = oldest_step_++;
    waits_[slot_of(ended)] = all_waits_;
    unfinished_[slot_of(ended)] = plan_.tasks.size();
    for (std::size_t queue = 0; queue < queues_.size(); ++queue) list(queue);
    observer_.step_finished(ended);
  }
}

std::string Dispatcher::first_waiting() const {
  const auto& waits = waits_[slot_of(oldest_step_)];
  for (std::size_t id = 0; id < waits.size(); ++id) {
    if (waits[id] >= 0) return "task '" + plan_.tasks[id].name + "' waits for ever";
  }
  return "a step waits for ever";
}

int Dispatcher::run() {
  while (true) {
    start_candidates();
    if (in_flight_ == 0) break;
    finish(runner_.wait_any());
  }
  // Nothing runs and nothing may start: the range is done, or the plan has a cycle, or the runner
  // refused a task although nothing was in flight.
  FERRY_CHECK(oldest_step_ >= end_step_, first_waiting());
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
