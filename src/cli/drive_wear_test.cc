#include "cli/drive_wear.h"

#include <gtest/gtest.h>

#include <limits>

namespace ferry {
namespace {

Machine two_drives() {
  Machine machine;
  for (const double rate : {3e9, 1e9}) {
    machine.drives.push_back({.capacity = 1000_GiB, .read = {rate}, .write = {rate}});
    machine.drives.back().endurance = 400_GiB;
  }
  return machine;
}

// A step of 2 x 8 positions that reads W.0 and writes W.0 and S.0, 3 GiB in all.
Plan plan_on_drives() {
  Plan plan;
  plan.micro_batches = 2;
  plan.sequence = 8;
  plan.blocks.push_back({});
  plan.blocks.push_back({});
  const PlaceId drives = plan.places.add({"drives", PlaceKind::drive, 1000_GiB, {}});
  const ValueId w = plan.values.add({ValueKind::weight, BlockId(0), -1, 1_GiB});
  const ValueId s = plan.values.add({ValueKind::state, BlockId(0), -1, 2_GiB});
  const InstanceId weights = plan.instances.add({w, drives, {}, true});
  const InstanceId states = plan.instances.add({s, drives, 1_GiB, true});
  Task read;
  read.reads = {weights};
  Task write;
  write.writes = {weights, states};
  plan.tasks.push_back(read);
  plan.tasks.push_back(write);
  return plan;
}

TEST(DriveWear, TheBusierDriveEndsFirst) {
  const auto wear = drive_wear(two_drives(), plan_on_drives());
  ASSERT_TRUE(wear);
  EXPECT_EQ(wear->read, 1_GiB);
  EXPECT_EQ(wear->written, 3_GiB);
  // The first has three quarters of every row: 400 GiB of it are 533 GiB of rows.
  EXPECT_EQ(wear->life_steps, 177);
  EXPECT_EQ(wear->life_positions, 177 * 16);
  EXPECT_EQ(wear_line(*wear),
            "drives: 1.0 GiB read, 3.0 GiB written per step; rated for 177 such steps, 2.83e+03 "
            "positions\n");
}

TEST(DriveWear, IsUnknownWithoutEndurance) {
  Machine machine = two_drives();
  for (Drive& drive : machine.drives) drive.endurance.reset();
  const auto wear = drive_wear(machine, plan_on_drives());
  EXPECT_EQ(wear_line(*wear), "drives: 1.0 GiB read, 3.0 GiB written per step\n");
  EXPECT_EQ(wear_warning(*wear, 1'000'000), "");
}

TEST(DriveWear, AWarningComesBeyondAHundredth) {
  const auto wear = drive_wear(two_drives(), plan_on_drives());
  EXPECT_EQ(wear_warning(*wear, 1), "");
  EXPECT_EQ(wear_warning(*wear, 0), "");
  EXPECT_EQ(wear_warning(*wear, 2),
            "2 steps write 6.0 GiB to drives: 1% of the 533.3 GiB that they are rated for");
}

TEST(DriveWear, APlanWithoutDrivesHasNone) {
  EXPECT_FALSE(drive_wear(two_drives(), Plan{}));
  EXPECT_EQ(drive_homes_line(Plan{}), "");
}

TEST(DriveWear, OfAPapersProgramIsInSteps) {
  Plan plan = plan_on_drives();
  plan.timing_only = true;
  const PlaceId drives = plan.instances.front().place;
  plan.places[drives].budget = {std::numeric_limits<std::int64_t>::max()};
  plan.resources.push_back({"states_write", ResourceKind::copy, drives});
  plan.tasks.assign(1, {.name = "write.S", .resource = ResourceId(0), .bytes = 3_GiB});
  const auto wear = drive_wear(two_drives(), plan);
  EXPECT_EQ(wear->life_steps, 177);
  EXPECT_EQ(wear->life_positions, std::nullopt);
  EXPECT_EQ(wear_line(*wear),
            "drives: 0 B read, 3.0 GiB written per step; rated for 177 such steps\n");
}

TEST(DriveWear, WhatRestsThereIsTold) {
  EXPECT_EQ(drive_homes_line(plan_on_drives()),
            "on the drives rest, of 2 blocks: weights of 1, optimizer states of 1\n");
}

}  // namespace
}  // namespace ferry
