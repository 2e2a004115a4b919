#include "exec/driver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <vector>

#include "plan/sample_plans.h"

namespace ferry {
namespace {

// What happens in the middle of a run.
enum class Trouble { none, in_start, in_wait };

// Completes tasks in any order that a machine could, refuses to start some, and fails one of them.
// Several tasks of a queue may be in flight, as on a stream; they are completed in its order.
class HostileRunner : public TaskRunner {
 public:
  HostileRunner(const Plan& plan, unsigned seed) : plan_(plan), random_(seed) {}

  Trouble trouble = Trouble::none;
  int trouble_at = -1;      // which start or completion fails, counted from 0
  bool orders_all = false;  // dependencies are the runner's own business
  std::size_t queue_depth = 1;

  bool can_start(const Task& task) const override {
    if (in_flight_ == 0) return true;
    return queue_of(task).size() < queue_depth && random_() % 4 != 0;
  }

  void start(TaskRun run, const Task& task) override {
    EXPECT_FALSE(failed_) << task.name << " was started after a failure";
    EXPECT_EQ(&task, &plan_.tasks[run.task]);
    if (trouble == Trouble::in_start && starts_++ == trouble_at) fail();
    queues_[task.resource].push_back(run);
    ++in_flight_;
    started.push_back(run);
  }

  TaskRun wait_any() override {
    EXPECT_GT(in_flight_, 0U);
    std::vector<std::vector<TaskRun>*> busy;
    for (auto& [resource, queue] : queues_) {
      if (!queue.empty() && may_finish(queue.front())) busy.push_back(&queue);
    }
    EXPECT_FALSE(busy.empty());
    auto& queue = *busy[random_() % busy.size()];
    const TaskRun run = queue.front();
    queue.erase(queue.begin());
    --in_flight_;
    if (trouble == Trouble::in_wait && static_cast<int>(finished_.size()) == trouble_at) fail();
    finished_.insert(run);
    return run;
  }

  void drain() override {
    ++drains;
    queues_.clear();
    in_flight_ = 0;
  }

  bool orders(const Task& /*earlier*/, const Task& later) const override {
    return orders_all || (some_ && later.kind == TaskKind::copy);
  }

  bool has_finished(TaskRun run) const { return finished_.contains(run); }
  bool has_started(TaskRun run) const {
    return std::find(started.begin(), started.end(), run) != started.end();
  }
  void order_copies() { some_ = true; }

  std::vector<TaskRun> started;
  int drains = 0;

 private:
  [[noreturn]] void fail() {
    failed_ = true;
    throw std::runtime_error("task " + std::to_string(trouble_at) + " failed");
  }
  const std::vector<TaskRun>& queue_of(const Task& task) const { return queues_[task.resource]; }
  // What the runner orders itself has to be over before the task is.
  bool may_finish(TaskRun run) const {
    const Task& task = plan_.tasks[run.task];
    return std::all_of(task.after.begin(), task.after.end(), [&](TaskId earlier) {
      return finished_.contains({run.step, earlier});
    });
  }

  const Plan& plan_;
  mutable std::mt19937 random_;
  mutable std::map<ResourceId, std::vector<TaskRun>> queues_;
  std::size_t in_flight_ = 0;
  std::set<TaskRun> finished_;
  int starts_ = 0;
  bool failed_ = false;
  bool some_ = false;
};

// Checks every start against the plan.
class Referee : public Observer {
 public:
  Referee(const Plan& plan, const HostileRunner& runner, StepRange steps)
      : plan_(plan), runner_(runner), steps_(steps) {
    next_.resize(plan.resources.size());
    for (const TaskId id : plan.tasks.ids()) next_[plan.tasks[id].resource].push_back(id);
    position_.resize(plan.resources.size());
  }

  void started(TaskRun run) override {
    const Task& task = plan_.tasks[run.task];
    const auto& queue = next_[task.resource];
    std::size_t& position = position_[task.resource];
    EXPECT_EQ(run.task, queue[position % queue.size()]) << "out of the order of its queue";
    EXPECT_EQ(run.step, steps_.first + static_cast<int>(position / queue.size()));
    ++position;
    EXPECT_LE(run.step, ended_ + 2) << "more than two steps in flight";
    for (const TaskId earlier : task.after) expect_over({run.step, earlier}, task);
    if (run.step == steps_.first) return;
    for (const TaskId earlier : task.after_previous) expect_over({run.step - 1, earlier}, task);
  }

  void step_finished(int step) override {
    EXPECT_EQ(step, ended_ + 1) << "steps end in order";
    ended_ = step;
  }

  bool wants_step(int step) override {
    asked.push_back(step);
    return step < wanted;
  }

  int wanted = 1 << 30;
  std::vector<int> asked;
  int ended() const { return ended_; }

 private:
  void expect_over(TaskRun earlier, const Task& later) {
    const Task& task = plan_.tasks[earlier.task];
    if (runner_.orders(task, later)) {
      EXPECT_TRUE(runner_.has_started(earlier)) << task.name << " before " << later.name;
    } else {
      EXPECT_TRUE(runner_.has_finished(earlier)) << task.name << " before " << later.name;
    }
  }

  const Plan& plan_;
  const HostileRunner& runner_;
  const StepRange steps_;
  std::vector<std::vector<TaskId>> next_;  // by resource: its tasks in order
  std::vector<std::size_t> position_;      // by resource: started so far
  int ended_ = steps_.first - 1;
};

Plan two_devices() {
  SampleShape shape;
  shape.devices = 2;
  return sample_mobius(shape);
}

std::size_t distinct(const std::vector<TaskRun>& runs) {
  return std::set<TaskRun>(runs.begin(), runs.end()).size();
}

TEST(Driver, RunsEveryTaskOncePerStepInAnyOrderOfCompletion) {
  const Plan plan = two_devices();
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    HostileRunner runner(plan, seed);
    runner.queue_depth = 1 + seed % 3;
    const StepRange steps{static_cast<int>(seed % 2) * 5, 4};
    Referee referee(plan, runner, steps);
    EXPECT_EQ(drive(plan, steps, runner, referee), 4);
    EXPECT_EQ(runner.started.size(), plan.tasks.size() * 4);
    EXPECT_EQ(distinct(runner.started), plan.tasks.size() * 4);
    EXPECT_EQ(referee.ended(), steps.first + 3);
    EXPECT_EQ(runner.drains, 0);
  }
}

TEST(Driver, StartsBehindATaskInFlightWhenTheRunnerOrdersTheTwo) {
  const Plan plan = two_devices();
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    HostileRunner runner(plan, seed);
    runner.queue_depth = 4;
    runner.order_copies();
    Referee referee(plan, runner, {0, 3});
    EXPECT_EQ(drive(plan, {0, 3}, runner, referee), 3);
    EXPECT_EQ(distinct(runner.started), plan.tasks.size() * 3);
  }
}

// Never refuses, and orders everything: all of both steps is in flight before anything completes.
TEST(Driver, KeepsAtMostTwoStepsInFlight) {
  class Greedy : public HostileRunner {
   public:
    using HostileRunner::HostileRunner;
    bool can_start(const Task& /*task*/) const override { return true; }
    TaskRun wait_any() override {
      most = std::max(most, started.size() - completed++);
      return HostileRunner::wait_any();
    }
    std::size_t most = 0;
    std::size_t completed = 0;
  };
  const Plan plan = two_devices();
  Greedy runner(plan, 1);
  runner.orders_all = true;
  Referee referee(plan, runner, {0, 4});
  EXPECT_EQ(drive(plan, {0, 4}, runner, referee), 4);
  EXPECT_EQ(runner.most, 2 * plan.tasks.size());
}

TEST(Driver, StopsBeforeTheStepThatIsNotWanted) {
  const Plan plan = two_devices();
  for (unsigned seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    for (const std::size_t wanted : {0U, 1U, 3U}) {
      HostileRunner runner(plan, seed);
      Referee referee(plan, runner, {0, 5});
      referee.wanted = static_cast<int>(wanted);
      EXPECT_EQ(drive(plan, {0, 5}, runner, referee), referee.wanted);
      EXPECT_EQ(runner.started.size(), plan.tasks.size() * wanted);
      EXPECT_EQ(referee.asked.size(), wanted + 1);  // each step once
    }
  }
}

TEST(Driver, TheStepBehindTheRangeIsBegunAndDropped) {
  const Plan plan = two_devices();
  bool began = false;
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    HostileRunner runner(plan, seed);
    const StepRange steps{.first = 0, .count = 3, .begins_next = true};
    Referee referee(plan, runner, steps);
    EXPECT_EQ(drive(plan, steps, runner, referee), 3);
    EXPECT_EQ(referee.ended(), 2);
    EXPECT_GE(runner.started.size(), plan.tasks.size() * 3);
    EXPECT_LT(runner.started.size(), plan.tasks.size() * 4);
    EXPECT_EQ(distinct(runner.started), runner.started.size());
    began = began || runner.started.size() > plan.tasks.size() * 3;
  }
  EXPECT_TRUE(began);
}

TEST(Driver, NoStepsIsNoWork) {
  const Plan plan = two_devices();
  HostileRunner runner(plan, 0);
  Referee referee(plan, runner, {0, 0});
  EXPECT_EQ(drive(plan, {0, 0}, runner, referee), 0);
  EXPECT_TRUE(runner.started.empty());
}

TEST(Driver, AFailureAtAnyTaskIsReportedAndNothingStartsAfterIt) {
  const Plan plan = two_devices();
  const int runs = static_cast<int>(plan.tasks.size()) * 2;
  for (const Trouble trouble : {Trouble::in_start, Trouble::in_wait}) {
    for (int n = 0; n < runs; ++n) {
      SCOPED_TRACE(n);
      HostileRunner runner(plan, static_cast<unsigned>(n));
      runner.queue_depth = 2;
      runner.trouble = trouble;
      runner.trouble_at = n;
      Observer nobody;
      try {
        drive(plan, {0, 2}, runner, nobody);
        FAIL() << "the failure was lost";
      } catch (const std::runtime_error& error) {
        EXPECT_EQ(error.what(), "task " + std::to_string(n) + " failed");
      }
      EXPECT_EQ(runner.drains, 1);
    }
  }
}

TEST(Driver, AnObserverThatThrowsEndsTheRun) {
  class Impatient : public Observer {
   public:
    void finished(TaskRun /*run*/) override { throw std::runtime_error("enough"); }
  };
  const Plan plan = two_devices();
  HostileRunner runner(plan, 3);
  Impatient observer;
  EXPECT_THROW(drive(plan, {0, 2}, runner, observer), std::runtime_error);
  EXPECT_EQ(runner.drains, 1);
}

TEST(DriverDeathTest, APlanWithACycleIsNotWaitedForEver) {
  Plan plan = two_devices();
  for (Task& task : plan.tasks) task.after = {0};
  HostileRunner runner(plan, 0);
  Observer nobody;
  EXPECT_DEATH(drive(plan, {0, 1}, runner, nobody), "task 'X.0' waits for ever");
}

}  // namespace
}  // namespace ferry
