#include "plan/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <random>

#include "base/error.h"
#include "plan/order.h"
#include "plan/sample_plans.h"

namespace ferry {
namespace {

SampleShape small() {
  SampleShape shape;
  shape.layers = 2;
  shape.devices = 2;
  return shape;
}

Plan smallest() {
  return read_plan(std::filesystem::path(FERRY_SOURCE_DIR) / "src/plan/testdata/smallest.plan");
}

Task& task_of(Plan& plan, const std::string& name) { return plan.tasks[task_named(plan, name)]; }

InstanceId id_of_instance(const Plan& plan, const std::string& name) {
  const auto names = instance_names(plan);
  InstanceId id(0);
  while (names.has(id) && names[id] != name) ++id;
  EXPECT_TRUE(names.has(id)) << name;
  return id;
}

Instance& instance_of(Plan& plan, const std::string& name) {
  return plan.instances[id_of_instance(plan, name)];
}

// The plan without one task; what came after it comes after what it came after.
Plan without(Plan plan, const std::string& name) {
  const TaskId gone = task_named(plan, name);
  const auto erased = plan.tasks[gone];
  plan.tasks.erase(plan.tasks.begin() + gone.number());
  for (Task& task : plan.tasks) {
    for (auto* const list : {&task.after, &task.after_previous}) {
      if (erase(*list, gone) > 0) {
        list->insert(list->end(), erased.after.begin(), erased.after.end());
      }
      for (TaskId& id : *list) {
        if (id > gone) --id;
      }
    }
  }
  return plan;
}

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

TEST(Verify, AcceptsTheSmallestPlan) { EXPECT_EQ(found_in(smallest()), "nothing"); }

TEST(Verify, ReadersComeAfterTheirWriters) {
  Plan plan = smallest();
  task_of(plan, "F.0.0").after.clear();
  EXPECT_EQ(found_in(plan),
            "2: 'F.0.0' of step 0 reads X.0@gpu0 (bytes 2048 to 2176 of gpu0), but does not come "
            "after 'X.0>gpu0' of step 0, which writes it");
}

TEST(Verify, ACopyComesAfterTheLoad) {
  Plan plan = smallest();
  task_of(plan, "X.0>gpu0").after.clear();
  EXPECT_EQ(found_in(plan),
            "2: 'X.0>gpu0' of step 0 reads X.0@host (bytes 0 to 128 of host), but does not come "
            "after 'X.0' of step 0, which writes it");
}

TEST(Verify, ASlotIsNotWrittenWhileTheStepBeforeReadsIt) {
  Plan plan = smallest();
  task_of(plan, "X.0").after_previous.clear();
  EXPECT_EQ(found_in(plan),
            "3: 'X.0' of step 1 writes X.0@host (bytes 0 to 128 of host) over X.0, which "
            "'X.0>gpu0' of step 0 reads; nothing orders the two");
}

TEST(Verify, ATaskDoesNotWriteOverWhatItReads) {
  Plan plan = smallest();
  instance_of(plan, "dA.1.0@gpu0").offset = instance_of(plan, "A.1.0@gpu0").offset;
  EXPECT_EQ(found_in(plan),
            "3: 'B.1.0' of step 0 writes dA.1.0@gpu0 (bytes 2176 to 2240 of gpu0) over A.1.0, "
            "which 'B.1.0' of step 0 reads from the same bytes");
}

TEST(Verify, WhatATaskReadsIsNotOverwrittenBefore) {
  Plan plan = smallest();
  instance_of(plan, "G.1@gpu0").offset = instance_of(plan, "G.0@gpu0").offset;
  EXPECT_EQ(found_in(plan),
            "2: 'U.1' of step 0 reads G.1@gpu0 (bytes 1536 to 1792 of gpu0), but finds G.0 there, "
            "from 'B.0.0' of step 0");
}

// The sample with K.1.0, which forward of block 1 keeps for backward.
Plan keeping() {
  Plan plan = sample_resident(small());
  const PlaceId device = plan.resources[task_of(plan, "F.1.0").resource].place;
  const Bytes end = slots_end(plan, device);
  const ValueId value = plan.values.add({ValueKind::saved, BlockId(1), 0, 512_B});
  const InstanceId kept = plan.instances.add({value, device, end, false});
  plan.places[device].budget += 512_B;
  task_of(plan, "F.1.0").writes.push_back(kept);
  task_of(plan, "B.1.0").reads.push_back(kept);
  return plan;
}

TEST(Verify, BackwardReadsWhatForwardKept) {
  Plan plan = keeping();
  EXPECT_EQ(found_in(plan), "nothing");
  task_of(plan, "F.1.0").writes.pop_back();
  EXPECT_EQ(found_in(plan).substr(0, 43), "2: 'B.1.0' of step 0 reads K.1.0@gpu0 (byte");
}

TEST(Verify, OnlyTheQueueThatKeptGoesOn) {
  Plan plan = keeping();
  Resource another = plan.resources[task_of(plan, "B.1.0").resource];
  another.name = "gpu0.other";
  task_of(plan, "B.1.0").resource = plan.resources.add(another);
  EXPECT_EQ(found_in(plan),
            "2: 'B.1.0' on gpu0.other reads K.1.0, which is made on gpu0.compute; only the queue "
            "that made it can go on from it");
}

// The smallest plan with R.1, which the last backward of block 1 makes of G.1 for the update.
Plan rounding() {
  Plan plan = smallest();
  plan.gradients = Precision::bf16;
  const InstanceId sum = plan.tasks[task_named(plan, "U.1")].reads[2];
  const PlaceId device = plan.instances[sum].place;
  const ValueId value = plan.values.add({ValueKind::rounded, BlockId(1), -1, 128_B});
  const InstanceId rounded = plan.instances.add({value, device, slots_end(plan, device), false});
  task_of(plan, "B.1.0").writes.push_back(rounded);
  task_of(plan, "U.1").reads[2] = rounded;
  return plan;
}

TEST(Verify, UpdatesReadTheSumThatTheLastBackwardRounded) {
  Plan plan = rounding();
  EXPECT_EQ(found_in(plan), "nothing");  // U.0 rounds G.0 itself
  task_of(plan, "B.1.0").writes.pop_back();
  EXPECT_EQ(found_in(plan),
            "2: 'U.1' of step 0 reads R.1@gpu0 (bytes 2328 to 2456 of gpu0), which nothing has "
            "written");
}

TEST(Verify, AnUpdateReadsOneOfTheTwoSums) {
  Plan plan = rounding();
  const InstanceId sum = plan.tasks[task_named(plan, "U.0")].reads[2];
  task_of(plan, "U.1").reads[2] = sum;
  EXPECT_EQ(found_in(plan), "0: task 'U.1' may not read G.0");
  plan = rounding();
  task_of(plan, "U.1").reads.push_back(id_of_instance(plan, "G.1@gpu0"));
  EXPECT_EQ(found_in(plan), "0: task 'U.1' may not read G.1");
}

TEST(Verify, ARoundedSumNeedsAStepThatRounds) {
  Plan plan = rounding();
  plan.gradients = Precision::fp32;
  EXPECT_EQ(found_in(plan), "0: value R.1 is of no sum that the step rounds");
}

// A part of a sum is rounded by nobody: bits would depend on where the sum rested between visits.
TEST(Verify, OnlyAWholeSumIsRounded) {
  SampleShape shape = small();
  Plan plan = sample_resident(shape);
  plan.gradients = Precision::bf16;
  const PlaceId device = plan.resources[task_of(plan, "B.1.0").resource].place;
  const ValueId value = plan.values.add({ValueKind::rounded, BlockId(1), -1, 128_B});
  const InstanceId rounded = plan.instances.add({value, device, slots_end(plan, device), false});
  plan.places[device].budget += 128_B;
  Task& update = task_of(plan, "U.1");
  for (InstanceId& id : update.reads) {
    if (plan.values[plan.instances[id].value].kind == ValueKind::gradient) id = rounded;
  }
  task_of(plan, "B.1.1").writes.push_back(rounded);
  EXPECT_EQ(found_in(plan), "nothing");
  task_of(plan, "B.1.1").writes.pop_back();
  task_of(plan, "B.1.0").writes.push_back(rounded);
  EXPECT_EQ(found_in(plan), "5: 'B.1.0' of step 0 writes R.1@gpu0 after 1 of 2 micro-batches");
}

TEST(Verify, TheHostUpdatesByRoundedSums) {
  Plan plan = sample_mobius(small());
  plan.gradients = Precision::bf16;
  EXPECT_EQ(found_in(plan),
            "0: task 'U.0' updates on the host by the sum G.0, where the step rounds sums; "
            "expected R.0");
}

TEST(Verify, PartlyOverlappingSlotsAreFound) {
  Plan plan = smallest();
  instance_of(plan, "G.1@gpu0").offset = instance_of(plan, "G.0@gpu0").offset + 255_B;
  EXPECT_EQ(found_in(plan).substr(0, 2), "2:");
  plan = smallest();
  instance_of(plan, "S.1@gpu0").offset = 1023_B;  // one byte of W.1
  EXPECT_EQ(found_in(plan),
            "2: 'B.1.0' of step 0 reads W.1@gpu0 (bytes 768 to 1024 of gpu0), but finds S.1 there, "
            "from the state before the first step");
}

TEST(Verify, ATaskUsesWhatLiesAtItsPlace) {
  Plan plan = sample_mobius(small());
  Task& task = task_of(plan, "F.0.0");
  task.resource = plan.tasks[task_named(plan, "F.2.0")].resource;
  EXPECT_EQ(found_in(plan).substr(0, 2), "2:") << found_in(plan);
}

/// The smallest plan with the updates on the host, whose states of block 1 rest on a drive.
Plan with_drive() {
  Plan plan = smallest();
  const PlaceId ssd = plan.places.add({"ssd0", PlaceKind::drive, 16_KiB, {}});
  const ResourceId queue = plan.resources.add({"ssd0.read", ResourceKind::copy, ssd, 1e9, {}, {}});
  const PlaceId host =
      plan.places.id_of(std::ranges::find(plan.places, PlaceKind::host, &Place::kind));
  plan.places[host].budget = 64_KiB;
  const ValueId losses = instance_of(plan, "L.0@host").value;
  const InstanceId in_memory = plan.instances.add({losses, host, 8_KiB, false});
  const InstanceId on_drive = plan.instances.add({losses, ssd, 4_KiB, false});
  const auto copy = [&](const char* name, InstanceId from, InstanceId to, TaskId after) {
    Task task;
    task.name = name;
    task.resource = queue;
    task.reads = {from};
    task.writes = {to};
    task.after = {after};
    task.bytes = plan.values[losses].bytes;
    return plan.tasks.add(std::move(task));
  };
  // A loss that goes to the drive and back: nobody reads it, and verify has no objection.
  Instance& landed = instance_of(plan, "L.0@host");
  landed.offset = 12_KiB;
  const InstanceId first(static_cast<int>(&landed - plan.instances.data()));
  const TaskId there = copy("there", first, on_drive, task_named(plan, "L.0>host"));
  copy("back", on_drive, in_memory, there);
  task_of(plan, "L.0>host").after_previous = {there};
  return plan;
}

TEST(Verify, DrivesMoveWholePagesInWhichNothingElseLies) {
  EXPECT_EQ(found_in(with_drive()), "nothing");
  Plan plan = with_drive();
  instance_of(plan, "L.0@ssd0").offset = 4_KiB + 8_B;
  EXPECT_EQ(found_in(plan),
            "3: 'there' moves whole pages of 4096 bytes, but L.0@ssd0 begins at 4104, within the "
            "page at 4096");
  plan = with_drive();
  instance_of(plan, "L.0@host#1").offset = 8_KiB - 512_B;
  EXPECT_EQ(found_in(plan).substr(0, 40), "3: 'back' moves whole pages of 4096 byte");
  plan = with_drive();
  instance_of(plan, "N.0@host").offset = 8_KiB + 512_B;
  EXPECT_EQ(found_in(plan),
            "3: 'back' moves whole pages, the last of L.0@host#1 from 8192 on, in which N.0@host "
            "begins");
  instance_of(plan, "N.0@host").offset = 12_KiB;  // behind the page
  EXPECT_NE(found_in(plan).substr(0, 9), "3: 'back'");
}

TEST(Verify, DrivesCopyToAndFromTheHostOnQueuesOfTheirOwn) {
  Plan plan = with_drive();
  instance_of(plan, "L.0@host#1").place = instance_of(plan, "L.0@gpu0").place;
  EXPECT_EQ(
      found_in(plan),
      "2: 'back' on ssd0.read copies L.0@ssd0 to L.0@gpu0#1; drives copy to and from the host "
      "alone, on queues of their own");
  plan = with_drive();
  plan.resources.back().place = instance_of(plan, "L.0@host").place;
  EXPECT_EQ(found_in(plan),
            "0: resource 'ssd0.read' copies, but is at the host: copies are on queues of devices "
            "and drives");
}

// A loss that goes to another device, where nobody reads it.
TEST(Verify, DevicesCopyToEachOtherOnQueuesOfTheSender) {
  Plan plan = smallest();
  const PlaceId here = instance_of(plan, "L.0@gpu0").place;
  const PlaceId other = plan.places.add({"gpu1", PlaceKind::device, 4_KiB, {}});
  const auto queue = [&](const char* name, PlaceId at) {
    return plan.resources.add({name, ResourceKind::copy, at, 1e9, {}, {}});
  };
  const ValueId loss = instance_of(plan, "L.0@gpu0").value;
  Task task;
  task.name = "L.0>gpu1";
  task.resource = queue("gpu0.acts_to_gpu1", here);
  task.reads = {
      InstanceId(static_cast<int>(&instance_of(plan, "L.0@gpu0") - plan.instances.data()))};
  task.writes = {plan.instances.add({loss, other, {}, false})};
  task.after = {task_named(plan, "B.1.0")};
  task.bytes = plan.values[loss].bytes;
  const TaskId sent = plan.tasks.add(std::move(task));
  task_of(plan, "B.1.0").after_previous = {sent};
  EXPECT_EQ(found_in(plan), "nothing");
  EXPECT_EQ(to_text(parse_plan(to_text(plan), "again")), to_text(plan));
  plan.tasks[sent].resource = queue("gpu1.acts_from_gpu0", other);
  EXPECT_EQ(found_in(plan),
            "2: 'L.0>gpu1' on gpu1.acts_from_gpu0 copies L.0@gpu0 to L.0@gpu1; copies between "
            "devices are on queues of the device that sends");
}

TEST(Verify, BudgetsHoldSlotsAndWorkspaceToTheByte) {
  Plan plan = smallest();
  plan.places[1].budget = 2528_B;  // 2328 of slots, 200 of workspace
  EXPECT_EQ(found_in(plan), "nothing");
  plan.places[1].budget = 2527_B;
  EXPECT_EQ(found_in(plan),
            "4: gpu0 needs 2328 bytes of slots and 200 bytes of workspace, but has a budget of "
            "2527 bytes");
  plan = smallest();
  plan.places[1].workspace = 199_B;
  EXPECT_EQ(found_in(plan),
            "4: the tasks of 'gpu0.compute' need 200 bytes of workspace at gpu0, which has 199 of "
            "199 left");
}

TEST(Verify, HugeSlotsDoNotOverflowTheBudget) {
  Plan plan = smallest();
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  instance_of(plan, "C@gpu0").offset = {kMost - 4};
  plan.places[1].workspace = {kMost};
  EXPECT_EQ(found_in(plan).substr(0, 2), "4:");
  instance_of(plan, "C@gpu0").offset = {kMost - 3};
  EXPECT_EQ(found_in(plan), "0: instance C@gpu0 has no proper offset");
}

TEST(Verify, EveryTrainableBlockIsUpdatedOnce) {
  EXPECT_EQ(found_in(without(sample_mobius(small()), "U.3")),
            "5: update of block 3 runs 0 times per step, not 1");
  Plan plan = smallest();
  Task twice = task_of(plan, "U.1");
  twice.name = "U.1#1";
  plan.tasks.push_back(twice);
  EXPECT_EQ(found_in(plan), "5: update of block 1 runs 2 times per step, not 1");
}

// A second writer that nobody waits for is found as that, before anything is counted.
TEST(Verify, ASecondWriterIsOrderedToo) {
  Plan plan = sample_mobius(small());
  Task twice = task_of(plan, "U.6");
  twice.name = "U.6#1";
  plan.tasks.push_back(twice);
  EXPECT_EQ(found_in(plan).substr(0, 2), "2:");
  plan = smallest();
  Task copy = task_of(plan, "L.0>host");
  copy.name = "L.0>host#1";
  copy.resource = plan.resources.add(plan.resources[copy.resource]);
  plan.resources.back().name = "gpu0.second_down";
  plan.tasks.push_back(copy);
  EXPECT_EQ(found_in(plan).substr(0, 2), "3:") << found_in(plan);
}

TEST(Verify, EveryMicroBatchGoesBackwardThroughEveryBlock) {
  SampleShape shape = small();
  shape.micro_batches = 3;
  EXPECT_EQ(found_in(without(sample_mobius(shape), "B.0.1")),
            "5: backward of block 0 for micro-batch 1 runs 0 times per step, not 1");
  EXPECT_EQ(found_in(without(sample_mobius(shape), "F.1.1")).substr(0, 2), "2:");
}

// The same plan with micro-batches renamed in reverse is sound but for the order of sums, on which
// bit-equality between strategies rests.
TEST(Verify, SumsAreMadeInAscendingOrder) {
  Plan plan = sample_mobius(small());
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
  SampleShape shape = small();
  shape.tied = true;
  Plan plan = sample_mobius(shape);
  task_of(plan, "B.0.1")
      .reads.erase(
          std::find_if(task_of(plan, "B.0.1").reads.begin(), task_of(plan, "B.0.1").reads.end(),
                       [&](InstanceId id) { return instance_name(plan, id).starts_with("G.6"); }));
  EXPECT_EQ(found_in(plan), "5: 'B.0.1' of step 0 completes G.0 without G.6 of the tied head");
}

TEST(Verify, WeightsAreAsOldAsDeclared) {
  Plan plan = smallest();
  plan.staleness = 1;
  EXPECT_EQ(found_in(plan),
            "6: 'F.0.0' of step 1 reads W.0@gpu0 (bytes 0 to 256 of gpu0) after 1 updates; "
            "expected 0 with staleness 1");
}

SampleShape in_pieces() {
  SampleShape shape = small();
  shape.pieces = 3;
  return shape;
}

TEST(Verify, EveryPieceOfAStateIsUpdatedInOrder) {
  const Plan plan = sample_mobius(in_pieces());
  EXPECT_EQ(found_in(plan), "nothing");
  EXPECT_EQ(found_in(without(plan, "U.6.1")), "5: update of block 6 runs 2 times per step, not 3");
  Plan twice = plan;
  const TaskId second = task_named(twice, "U.6.1");
  twice.tasks[second] = task_of(twice, "U.6.2");
  twice.tasks[second].name = "U.6.2#1";
  EXPECT_EQ(found_in(twice),
            "6: 'U.6.2#1' of step 0 reads W.6@host (bytes 234563 to 242755 of host) with 1 of 3 "
            "pieces updated; expected 2");
}

TEST(Verify, WeightsAreReadWhenEveryPieceIsUpdated) {
  Plan plan = sample_mobius(in_pieces());
  Task& up = task_of(plan, "W.1>gpu0");
  std::ranges::replace(up.after_previous, task_named(plan, "U.1.2"), task_named(plan, "U.1.0"));
  EXPECT_EQ(found_in(plan).substr(0, 2), "2:") << found_in(plan);
}

TEST(Verify, PiecesCountFromZeroAndAreOfTheHostsUpdates) {
  const Plan plan = sample_mobius(in_pieces());
  const auto value_named = [](Plan& changed, const std::string& name) -> Value& {
    return *std::ranges::find(changed.values, name, value_name);
  };
  Plan changed = plan;
  value_named(changed, "S.1.1").piece = 3;
  EXPECT_EQ(found_in(changed),
            "0: value S.1.3 comes after 1 pieces of S.1; they count from 0 without gaps");
  changed = plan;
  value_named(changed, "S.1.2").piece = -1;
  EXPECT_EQ(found_in(changed), "0: the plan has S.1 whole and in pieces");
  changed = plan;
  changed.values.add({ValueKind::original, BlockId(1), -1, 8_B});
  EXPECT_EQ(found_in(changed), "0: the plan has O.1, and S.1 in pieces");
  changed = plan;
  task_of(changed, "F.1.0").piece = 0;
  EXPECT_EQ(found_in(changed), "0: task 'F.1.0' is of a piece, and only updates are");
  changed = plan;
  task_of(changed, "U.1.0").piece = -1;
  EXPECT_EQ(found_in(changed), "0: task 'U.1.0' may not read S.1.0");
  changed = plan;
  task_of(changed, "U.1.0").resource = task_of(changed, "F.1.0").resource;
  EXPECT_EQ(found_in(changed),
            "0: task 'U.1.0' is a update on 'gpu0.compute', which is of kind compute");
}

TEST(Verify, TasksThatWaitForEachOtherAreNamed) {
  Plan plan = smallest();
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
      {"0: instance G.0@gpu0 is at home, but only weights and states outlast a step",
       [](Plan& plan) { plan.instances[4].home = true; }},
      {"0: block 1 is the last and has to be fused",
       [](Plan& plan) { plan.blocks[1].fused = false; }},
      {"0: value S.0 has no bytes", [](Plan& plan) { plan.values[2].bytes = 0_B; }},
  };
  for (const Malformation& malformation : malformations) {
    Plan plan = smallest();
    malformation.make(plan);
    EXPECT_EQ(found_in(plan), malformation.message);
  }
}

TEST(Verify, RequireVerifiedNamesTheFile) {
  Plan plan = smallest();
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
  expect_every_dependency_is_needed(smallest());
  for (const bool tied : {false, true}) {
    SampleShape shape = small();
    shape.tied = tied;
    expect_every_dependency_is_needed(sample_mobius(shape));
    expect_every_dependency_is_needed(sample_resident(shape));
  }
  expect_every_dependency_is_needed(sample_mobius(in_pieces()));
}

TEST(Verify, EqualPlansGetEqualMessages) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Plan plan = sample_mobius(small());
    for (int i = 0; i < 3; ++i) plan.tasks[random() % plan.tasks.size()].after.clear();
    EXPECT_EQ(found_in(plan), found_in(plan));
  }
}

// Rule by rule, then step, then task: of two faults the earlier rule's is reported.
TEST(Verify, TheFirstBrokenRuleIsReported) {
  Plan plan = smallest();
  plan.places[1].budget = 0_B;
  EXPECT_EQ(found_in(plan).substr(0, 2), "4:");
  task_of(plan, "X.0").after_previous.clear();
  EXPECT_EQ(found_in(plan).substr(0, 2), "3:");
  task_of(plan, "F.0.0").after.clear();
  EXPECT_EQ(found_in(plan).substr(0, 2), "2:");
}

}  // namespace
}  // namespace ferry
