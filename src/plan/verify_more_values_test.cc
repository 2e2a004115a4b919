// What plans may have beside the least: what forward kept, rounded sums, states in pieces, drives,
// and copies between devices.
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/changed_plans.h"
#include "plan/verify.h"

namespace ferry {
namespace {

// The sample with K.1.0, which forward of block 1 keeps for backward.
Plan keeping() {
  Plan plan = sample_resident(two_layers_on_two_devices());
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
  Plan plan = smallest_plan();
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
  task_of(plan, "U.1").reads.push_back(instance_named(plan, "G.1@gpu0"));
  EXPECT_EQ(found_in(plan), "0: task 'U.1' may not read G.1");
}

TEST(Verify, ARoundedSumNeedsAStepThatRounds) {
  Plan plan = rounding();
  plan.gradients = Precision::fp32;
  EXPECT_EQ(found_in(plan), "0: value R.1 is of no sum that the step rounds");
}

// A part of a sum is rounded by nobody: bits would depend on where the sum rested between visits.
TEST(Verify, OnlyAWholeSumIsRounded) {
  SampleShape shape = two_layers_on_two_devices();
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
  Plan plan = sample_mobius(two_layers_on_two_devices());
  plan.gradients = Precision::bf16;
  EXPECT_EQ(found_in(plan),
            "0: task 'U.0' updates on the host by the sum G.0, where the step rounds sums; "
            "expected R.0");
}

/// The smallest plan with the updates on the host, whose states of block 1 rest on a drive.
Plan with_drive() {
  Plan plan = smallest_plan();
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
  Plan plan = smallest_plan();
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

SampleShape in_pieces() {
  SampleShape shape = two_layers_on_two_devices();
  shape.pieces = 3;
  return shape;
}

TEST(Verify, EveryPieceOfAStateIsUpdatedInOrder) {
  const Plan plan = sample_mobius(in_pieces());
  EXPECT_EQ(found_in(plan), "nothing");
  EXPECT_EQ(found_in(without_task(plan, "U.6.1")),
            "5: update of block 6 runs 2 times per step, not 3");
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

}  // namespace
}  // namespace ferry
