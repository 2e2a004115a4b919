#include "planner/write/edges.h"

#include <gtest/gtest.h>

#include <vector>

#include "plan/verify.h"
#include "planner/sample_questions.h"

namespace ferry {
namespace {

// One place, three queues; every value is 10 bytes.
class Sketch {
 public:
  Sketch() {
    plan.places.push_back({"gpu0", PlaceKind::device, 100_B, {}});
    for (const char* name : {"a", "b", "c"}) {
      plan.resources.push_back({name, ResourceKind::compute, 0, 0, {}, {}});
    }
  }
  InstanceId bytes_at(std::int64_t offset) {
    plan.values.push_back({ValueKind::activation, 0, 0, 10_B});
    plan.instances.push_back({static_cast<ValueId>(plan.values.size()) - 1, 0, {offset}, false});
    return static_cast<InstanceId>(plan.instances.size()) - 1;
  }
  void task(ResourceId queue, FewIds<InstanceId> reads, FewIds<InstanceId> writes) {
    Task made;
    made.resource = queue;
    made.reads = std::move(reads);
    made.writes = std::move(writes);
    plan.tasks.push_back(made);
  }
  Plan plan;
};

using Ids = FewIds<TaskId>;

TEST(Edges, AReaderWaitsForTheWriterAndTheNextStepForTheReader) {
  Sketch sketch;
  const InstanceId value = sketch.bytes_at(0);
  sketch.task(0, {}, {value});
  sketch.task(1, {value}, {});
  order_accesses(sketch.plan);
  EXPECT_EQ(sketch.plan.tasks[1].after, Ids{0});
  EXPECT_EQ(sketch.plan.tasks[0].after_previous, Ids{1});
}

TEST(Edges, OverlappingBytesAreOrderedAndOthersAreNot) {
  Sketch sketch;
  const InstanceId low = sketch.bytes_at(0);
  const InstanceId middle = sketch.bytes_at(5);
  const InstanceId high = sketch.bytes_at(15);
  sketch.task(0, {}, {low});
  sketch.task(1, {}, {middle});
  sketch.task(2, {}, {high});
  order_accesses(sketch.plan);
  EXPECT_EQ(sketch.plan.tasks[1].after, Ids{0});
  EXPECT_EQ(sketch.plan.tasks[2].after, Ids{});
}

TEST(Edges, WhatAQueueOrAnotherEdgeImpliesIsLeftOut) {
  Sketch sketch;
  const InstanceId first = sketch.bytes_at(0);
  const InstanceId second = sketch.bytes_at(10);
  sketch.task(0, {}, {first});
  sketch.task(0, {first}, {second});
  sketch.task(1, {second, first}, {});  // after task 1, which stands behind task 0
  order_accesses(sketch.plan);
  EXPECT_EQ(sketch.plan.tasks[1].after, Ids{});
  EXPECT_EQ(sketch.plan.tasks[2].after, Ids{1});
}

TEST(Edges, AreTheSameWhateverWasOrderedBefore) {
  std::vector<Plan> plans;
  for (const int layers : {6, 2, 4}) {
    SampleModel model;
    model.layers = layers;
    PlanQuestion question = sample_question(model, {}, 2);
    question.strategy = "mobius";
    plans.push_back(must_fit(question).plan);
  }
  const AccessOrder order;
  for (int round = 0; round < 2; ++round) {
    for (const Plan& plan : plans) {
      Plan again = plan;
      for (Task& task : again.tasks) task.after = task.after_previous = {};
      order.set(again);
      for (const TaskId id : plan.tasks.ids()) {
        EXPECT_EQ(again.tasks[id].after, plan.tasks[id].after);
        EXPECT_EQ(again.tasks[id].after_previous, plan.tasks[id].after_previous);
      }
    }
  }
}

// No edge is there for nothing: without it two accesses are no longer ordered.
TEST(Edges, EveryEdgeOfAPlanIsNeeded) {
  SampleMachine machine;
  machine.devices = 2;
  SampleModel model;
  model.tied = true;
  PlanQuestion question = sample_question(model, machine, 3);
  question.strategy = "mobius";
  set_device_budgets(question, {states_of(question).count / 2 + 300'000});
  const Plan whole = must_fit(question).plan;
  for (std::size_t t = 0; t < whole.tasks.size(); ++t) {
    for (const auto edges : {&Task::after, &Task::after_previous}) {
      for (std::size_t e = 0; e < (whole.tasks[t].*edges).size(); ++e) {
        Plan broken = whole;
        auto& list = broken.tasks[t].*edges;
        list.erase(list.begin() + static_cast<std::ptrdiff_t>(e));
        EXPECT_TRUE(verify(broken)) << whole.tasks[t].name << " loses an edge unnoticed";
      }
    }
  }
}

}  // namespace
}  // namespace ferry
