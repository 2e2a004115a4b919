#include "plan/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "base/error.h"
#include "plan/changed_plans.h"
#include "plan/order.h"

namespace ferry {
namespace {

TEST(Verify, AcceptsEveryShapeOfTheSamples) {
  for (const auto mode : {PlanMode::train, PlanMode::evaluate}) {
    for (const bool tied : {false, true}) {
      for (const int micro_batches : {1, 2, 3}) {
        for (const int devices : {1, 2, 3}) {
          SampleShape shape;
          shape.layers = 3;
          shape.mode = mode;
          shape.tied = tied;
          shape.micro_batches = micro_batches;
          shape.devices = devices;
          EXPECT_EQ(found_in(sample_mobius(shape)), "nothing");
          EXPECT_EQ(found_in(sample_resident(shape)), "nothing");
        }
      }
    }
  }
}

TEST(Verify, AcceptsTheSmallestPlan) { EXPECT_EQ(found_in(smallest_plan()), "nothing"); }

TEST(Verify, ReadersComeAfterTheirWriters) {
  Plan plan = smallest_plan();
  task_of(plan, "F.0.0").after.clear();
  EXPECT_EQ(found_in(plan),
            "2: 'F.0.0' of step 0 reads X.0@gpu0 (bytes 2048 to 2176 of gpu0), but does not come "
            "after 'X.0>gpu0' of step 0, which writes it");
}

TEST(Verify, ACopyComesAfterTheLoad) {
  Plan plan = smallest_plan();
  task_of(plan, "X.0>gpu0").after.clear();
  EXPECT_EQ(found_in(plan),
            "2: 'X.0>gpu0' of step 0 reads X.0@host (bytes 0 to 128 of host), but does not come "
            "after 'X.0' of step 0, which writes it");
}

TEST(Verify, ASlotIsNotWrittenWhileTheStepBeforeReadsIt) {
  Plan plan = smallest_plan();
  task_of(plan, "X.0").after_previous.clear();
  EXPECT_EQ(found_in(plan),
            "3: 'X.0' of step 1 writes X.0@host (bytes 0 to 128 of host) over X.0, which "
            "'X.0>gpu0' of step 0 reads; nothing orders the two");
}

TEST(Verify, ATaskDoesNotWriteOverWhatItReads) {
  Plan plan = smallest_plan();
  instance_of(plan, "dA.1.0@gpu0").offset = instance_of(plan, "A.1.0@gpu0").offset;
  EXPECT_EQ(found_in(plan),
            "3: 'B.1.0' of step 0 writes dA.1.0@gpu0 (bytes 2176 to 2240 of gpu0) over A.1.0, "
            "which 'B.1.0' of step 0 reads from the same bytes");
}

TEST(Verify, WhatATaskReadsIsNotOverwrittenBefore) {
  Plan plan = smallest_plan();
  instance_of(plan, "G.1@gpu0").offset = instance_of(plan, "G.0@gpu0").offset;
  EXPECT_EQ(found_in(plan),
            "2: 'U.1' of step 0 reads G.1@gpu0 (bytes 1536 to 1792 of gpu0), but finds G.0 there, "
            "from 'B.0.0' of step 0");
}

TEST(Verify, PartlyOverlappingSlotsAreFound) {
  Plan plan = smallest_plan();
  instance_of(plan, "G.1@gpu0").offset = instance_of(plan, "G.0@gpu0").offset + 255_B;
  EXPECT_EQ(found_in(plan).substr(0, 2), "2:");
  plan = smallest_plan();
  instance_of(plan, "S.1@gpu0").offset = 1023_B;  // one byte of W.1
  EXPECT_EQ(found_in(plan),
            "2: 'B.1.0' of step 0 reads W.1@gpu0 (bytes 768 to 1024 of gpu0), but finds S.1 there, "
            "from the state before the first step");
}

TEST(Verify, ATaskUsesWhatLiesAtItsPlace) {
  Plan plan = sample_mobius(two_layers_on_two_devices());
  Task& task = task_of(plan, "F.0.0");
  task.resource = plan.tasks[task_named(plan, "F.2.0")].resource;
  EXPECT_EQ(found_in(plan).substr(0, 2), "2:") << found_in(plan);
}

TEST(Verify, BudgetsHoldSlotsAndWorkspaceToTheByte) {
  Plan plan = smallest_plan();
  plan.places[1].budget = 2528_B;  // 2328 of slots, 200 of workspace
  EXPECT_EQ(found_in(plan), "nothing");
  plan.places[1].budget = 2527_B;
  EXPECT_EQ(found_in(plan),
            "4: gpu0 needs 2328 bytes of slots and 200 bytes of workspace, but has a budget of "
            "2527 bytes");
  plan = smallest_plan();
  plan.places[1].workspace = 199_B;
  EXPECT_EQ(found_in(plan),
            "4: the tasks of 'gpu0.compute' need 200 bytes of workspace at gpu0, which has 199 of "
            "199 left");
}

TEST(Verify, HugeSlotsDoNotOverflowTheBudget) {
  Plan plan = smallest_plan();
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  instance_of(plan, "C@gpu0").offset = {kMost - 4};
  plan.places[1].workspace = {kMost};
  EXPECT_EQ(found_in(plan).substr(0, 2), "4:");
  instance_of(plan, "C@gpu0").offset = {kMost - 3};
  EXPECT_EQ(found_in(plan), "0: instance C@gpu0 has no proper offset");
}

TEST(Verify, EveryTrainableBlockIsUpdatedOnce) {
  EXPECT_EQ(found_in(without_task(sample_mobius(two_layers_on_two_devices()), "U.3")),
            "5: update of block 3 runs 0 times per step, not 1");
  Plan plan = smallest_plan();
  Task twice = task_of(plan, "U.1");
  twice.name = "U.1#1";
  plan.tasks.push_back(twice);
  EXPECT_EQ(found_in(plan), "5: update of block 1 runs 2 times per step, not 1");
}

// A second writer that nobody waits for is found as that, before anything is counted.
TEST(Verify, ASecondWriterIsOrderedToo) {
  Plan plan = sample_mobius(two_layers_on_two_devices());
  Task twice = task_of(plan, "U.6");
  twice.name = "U.6#1";
  plan.tasks.push_back(twice);
  EXPECT_EQ(found_in(plan).substr(0, 2), "2:");
  plan = smallest_plan();
  Task copy = task_of(plan, "L.0>host");
  copy.name = "L.0>host#1";
  copy.resource = plan.resources.add(plan.resources[copy.resource]);
  plan.resources.back().name = "gpu0.second_down";
  plan.tasks.push_back(copy);
  EXPECT_EQ(found_in(plan).substr(0, 2), "3:") << found_in(plan);
}

TEST(Verify, EveryMicroBatchGoesBackwardThroughEveryBlock) {
  SampleShape shape = two_layers_on_two_devices();
  shape.micro_batches = 3;
  EXPECT_EQ(found_in(without_task(sample_mobius(shape), "B.0.1")),
            "5: backward of block 0 for micro-batch 1 runs 0 times per step, not 1");
  EXPECT_EQ(found_in(without_task(sample_mobius(shape), "F.1.1")).substr(0, 2), "2:");
}

// The same plan with micro-batches renamed in reverse is sound but for the order of sums, on which
// bit-equality between strategies rests.
TEST(Verify, SumsAreMadeInAscendingOrder) {
  Plan plan = sample_mobius(two_layers_on_two_devices());
  for (Value& value : plan.values) {
    if (value.micro_batch >= 0) value.micro_batch = 1 - value.micro_batch;
  }
  for (Task& task : plan.tasks) {
    if (task.micro_batch >= 0) task.micro_batch = 1 - task.micro_batch;
  }
  const auto violation = verify(plan);
  ASSERT_TRUE(violation.has_value());
  EXPECT_EQ(violation->rule, Rule::each_once);
  EXPECT_NE(violation->message.find("ascending"), std::string::npos) << violation->message;
}

TEST(Verify, TheEmbeddingsLastBackwardAddsTheTiedHeadsGradient) {
  SampleShape shape = two_layers_on_two_devices();
  shape.tied = true;
  Plan plan = sample_mobius(shape);
  task_of(plan, "B.0.1")
      .reads.erase(
          std::find_if(task_of(plan, "B.0.1").reads.begin(), task_of(plan, "B.0.1").reads.end(),
                       [&](InstanceId id) { return instance_name(plan, id).starts_with("G.6"); }));
  EXPECT_EQ(found_in(plan), "5: 'B.0.1' of step 0 completes G.0 without G.6 of the tied head");
}

TEST(Verify, WeightsAreAsOldAsDeclared) {
  Plan plan = smallest_plan();
  plan.staleness = 1;
  EXPECT_EQ(found_in(plan),
            "6: 'F.0.0' of step 1 reads W.0@gpu0 (bytes 0 to 256 of gpu0) after 1 updates; "
            "expected 0 with staleness 1");
}

TEST(Verify, TasksThatWaitForEachOtherAreNamed) {
  Plan plan = smallest_plan();
  task_of(plan, "X.0>gpu0").after.push_back(task_named(plan, "C>gpu0"));
  EXPECT_EQ(found_in(plan),
            "1: tasks wait for each other: 'X.0>gpu0' before 'F.0.0' before 'B.1.0' before 'B.0.0' "
            "before 'N.0>host' before 'clip' before 'C>gpu0' before 'X.0>gpu0'");
}

struct Malformation {
  const char* message;
  std::function<void(Plan&)> make;
};

TEST(Verify, MalformedPlansAreRefusedFirst) {
  const Malformation malformations[] = {
      {"0: task 'clip' comes after an unknown task",
       [](Plan& plan) { task_of(plan, "clip").after = {12}; }},
      {"0: task 'F.0.0' reads an unknown instance",
       [](Plan& plan) { task_of(plan, "F.0.0").reads[0] = -1; }},
      {"0: task 'F.0.0' runs on no resource",
       [](Plan& plan) { task_of(plan, "F.0.0").resource = 99; }},
      {"0: task 'X.0>gpu0' copies W.0@gpu0 to X.0@gpu0, another value",
       [](Plan& plan) { task_of(plan, "X.0>gpu0").reads = {0}; }},
      {"0: task 'X.0>gpu0' moves 1 bytes of 128",
       [](Plan& plan) { task_of(plan, "X.0>gpu0").bytes = 1_B; }},
      {"0: task 'F.0.0' does not read W.0",
       [](Plan& plan) {
         task_of(plan, "F.0.0").reads.erase(task_of(plan, "F.0.0").reads.begin());
       }},
      {"0: task 'F.0.0' may not write G.0",
       [](Plan& plan) { task_of(plan, "F.0.0").writes.push_back(4); }},
      {"0: task 'B.0.0' may write G.0 once",
       [](Plan& plan) { task_of(plan, "B.0.0").writes.push_back(4); }},
      {"0: task 'U.0' does not read C", [](Plan& plan) { task_of(plan, "U.0").reads.pop_back(); }},
      {"0: task 'X.0' is a load on 'gpu0.compute', which is of kind compute",
       [](Plan& plan) { task_of(plan, "X.0").resource = 2; }},
      {"0: two of one name: task 'U.0'", [](Plan& plan) { task_of(plan, "U.1").name = "U.0"; }},
      {"0: task 'clip' has no proper duration",
       [](Plan& plan) { task_of(plan, "clip").micros = {std::nan("")}; }},
      {"0: resource 'gpu0.up' copies, but has no proper rate",
       [](Plan& plan) { plan.resources[3].rate = 0; }},
      {"0: resource 'gpu0.compute' draws on a pool in turn, but does not copy",
       [](Plan& plan) {
         plan.resources[2].draws = {{plan.pools.add({"engine", 1e9, /*in_turn=*/true}), 1e9}};
       }},
      {"0: resource 'gpu0.up' draws on several pools in turn",
       [](Plan& plan) {
         const PoolId engine = plan.pools.add({"engine", 1e9, /*in_turn=*/true});
         plan.resources[3].draws = {{engine, 1e9}, {engine, 1e9}};
       }},
      {"0: instance G.0@gpu0 is at home, but only weights and states outlast a step",
       [](Plan& plan) { plan.instances[4].home = true; }},
      {"0: block 1 is the last and has to be fused",
       [](Plan& plan) { plan.blocks[1].fused = false; }},
      {"0: value S.0 has no bytes", [](Plan& plan) { plan.values[2].bytes = 0_B; }},
  };
  for (const Malformation& malformation : malformations) {
    Plan plan = smallest_plan();
    malformation.make(plan);
    EXPECT_EQ(found_in(plan), malformation.message);
  }
}

TEST(Verify, RequireVerifiedNamesTheFile) {
  Plan plan = smallest_plan();
  EXPECT_NO_THROW(require_verified(plan, "a.plan"));
  plan.places[0].budget = 0_B;
  try {
    require_verified(plan, "a.plan");
    FAIL() << "a plan beyond its budget passed";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "a.plan: the plan cannot run, rule 4 (within budget): host needs 152 bytes of "
                 "slots and 0 bytes of workspace, but has a budget of 0 bytes");
  }
}

// Drops every dependency that nothing else implies; verify has to miss it.
void expect_every_dependency_is_needed(const Plan& plan) {
  int dropped = 0;
  const RunIds runs(plan);
  for (const TaskId id : plan.tasks.ids()) {
    for (const bool previous : {false, true}) {
      const auto& list = previous ? plan.tasks[id].after_previous : plan.tasks[id].after;
      for (std::size_t i = 0; i < list.size(); ++i) {
        Plan mutant = plan;
        auto& shorter = previous ? mutant.tasks[id].after_previous : mutant.tasks[id].after;
        shorter.erase(shorter.begin() + static_cast<std::ptrdiff_t>(i));
        const Clocks clocks(mutant, order_step(mutant), 2);
        const RunId earlier = runs.of(previous ? 0 : 1, list[i]);
        if (clocks.ordered(earlier, runs.of(1, id))) continue;  // redundant
        ++dropped;
        const auto violation = verify(mutant);
        ASSERT_TRUE(violation.has_value())
            << plan.tasks[id].name << (previous ? " after_previous " : " after ")
            << plan.tasks[list[i]].name;
        EXPECT_TRUE(violation->rule == Rule::reads_find || violation->rule == Rule::slots_ordered)
            << violation->message;
      }
    }
  }
  EXPECT_GE(dropped, 7);
}

TEST(Verify, EveryDroppedDependencyIsFound) {
  expect_every_dependency_is_needed(smallest_plan());
  for (const bool tied : {false, true}) {
    SampleShape shape = two_layers_on_two_devices();
    shape.tied = tied;
    expect_every_dependency_is_needed(sample_mobius(shape));
    expect_every_dependency_is_needed(sample_resident(shape));
  }
  SampleShape in_pieces = two_layers_on_two_devices();
  in_pieces.pieces = 3;
  expect_every_dependency_is_needed(sample_mobius(in_pieces));
}

TEST(Verify, EqualPlansGetEqualMessages) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Plan plan = sample_mobius(two_layers_on_two_devices());
    for (int i = 0; i < 3; ++i) plan.tasks[random() % plan.tasks.size()].after.clear();
    EXPECT_EQ(found_in(plan), found_in(plan));
  }
}

// Rule by rule, then step, then task: of two faults the earlier rule's is reported.
TEST(Verify, TheFirstBrokenRuleIsReported) {
  Plan plan = smallest_plan();
  plan.places[1].budget = 0_B;
  EXPECT_EQ(found_in(plan).substr(0, 2), "4:");
  task_of(plan, "X.0").after_previous.clear();
  EXPECT_EQ(found_in(plan).substr(0, 2), "3:");
  task_of(plan, "F.0.0").after.clear();
  EXPECT_EQ(found_in(plan).substr(0, 2), "2:");
}

}  // namespace
}  // namespace ferry
