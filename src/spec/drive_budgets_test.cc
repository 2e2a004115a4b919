#include "spec/drive_budgets.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ferry {
namespace {

Job job_with(const std::string& drive) {
  return parse_job("model: m\nbudget:\n  drive: " + drive + "\n", "job.yaml");
}

// A machine with these drives, items of a list in YAML.
Machine box(const std::string& drives = "") {
  return parse_machine(
      "name: box\nhost: {cores: 4, memory: 64 GiB}\n"
      "devices: [{kind: sim, memory: 1 GiB}]\n" +
          (drives.empty() ? "" : "drives: [" + drives + "]\n"),
      "box.yaml");
}

Machine taken(const std::string& drive, Machine machine = box()) {
  take_drive_budgets(job_with(drive), machine);
  return machine;
}

std::string error_of(const std::string& drive, const Machine& machine = box()) {
  try {
    taken(drive, machine);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(DriveBudgets, OneSizeIsADriveForTheJobsFolder) {
  const Machine machine = taken("500G");
  ASSERT_EQ(machine.drives.size(), 1U);
  EXPECT_EQ(machine.drives[0].name, "ssd0");
  EXPECT_EQ(machine.drives[0].path, "runs/job");
  EXPECT_EQ(machine.drives[0].capacity, 500_GiB);
  EXPECT_FALSE(machine.drives[0].read.limited());
}

TEST(DriveBudgets, AMachineWithoutDrivesGetsThoseOfTheKey) {
  const Machine machine = taken(
      "[{path: /nvme0, capacity: 1 TB, read: 7 GB/s, write: 5 GB/s, endurance: 600 TB}, "
      "{path: /nvme1, capacity: 2 TB}]");
  ASSERT_EQ(machine.drives.size(), 2U);
  EXPECT_EQ(machine.drives[0].read.bytes_per_second, 7e9);
  EXPECT_EQ(machine.drives[0].endurance, Bytes{600'000'000'000'000});
  EXPECT_EQ(machine.drives[1].name, "ssd1");
  EXPECT_EQ(machine.drives[1].path, "/nvme1");
}

TEST(DriveBudgets, ADriveIsHeldByTheJobOrTheMachine) {
  EXPECT_FALSE(taken("{capacity: 1 TB, read: 1 GB/s, write: 1 GB/s}").drives[0].held);
  EXPECT_TRUE(taken("{capacity: 1 TB, read: 1 GB/s, write: 1 GB/s, held: true}").drives[0].held);
  const std::string rates = "{capacity: 1 TB, read: 1 GB/s, write: 1 GB/s";
  EXPECT_TRUE(taken("{capacity: 1 GB, held: true}", box(rates + "}")).drives[0].held);
  EXPECT_TRUE(taken("1 GB", box(rates + ", held: true}")).drives[0].held);
}

TEST(DriveBudgets, WithoutTheKeyTheMachineStaysAsItIs) {
  const Machine machine = box("{path: /a, capacity: 1 TB}");
  EXPECT_EQ(taken("null", machine), machine);
}

TEST(DriveBudgets, OneSizeLimitsEveryDriveOfTheMachine) {
  const Machine machine = taken("500 GB", box("{path: /a, capacity: 1 TB}, {capacity: 300 GB}"));
  EXPECT_EQ(machine.drives[0].capacity, Bytes{500'000'000'000});
  EXPECT_EQ(machine.drives[1].capacity, Bytes{300'000'000'000});
  EXPECT_EQ(machine.drives[0].path, "/a");
  EXPECT_EQ(machine.drives[1].path, "");
}

TEST(DriveBudgets, SizesGoInTheMachinesOrder) {
  const Machine machine = taken("[1 GB, 2 GB]", box("{count: 2, capacity: 1 TB}"));
  EXPECT_EQ(machine.drives[0].capacity, Bytes{1'000'000'000});
  EXPECT_EQ(machine.drives[1].capacity, Bytes{2'000'000'000});
}

TEST(DriveBudgets, PathsNameTheDrivesThatAreUsed) {
  const Machine machine =
      taken("{path: /b/, capacity: 5 GB}",
            box("{path: /a, capacity: 1 TB}, {path: /b, capacity: 1 TB, read: 7 GB/s}"));
  ASSERT_EQ(machine.drives.size(), 1U);
  EXPECT_EQ(machine.drives[0].name, "ssd1");
  EXPECT_EQ(machine.drives[0].capacity, Bytes{5'000'000'000});
  EXPECT_EQ(machine.drives[0].read.bytes_per_second, 7e9);
}

TEST(DriveBudgets, DrivesThatAreNotHereGetTheirFolders) {
  const Machine machine = taken("[{path: /a, capacity: 5 GB}, {path: /b, capacity: 5 GB}]",
                                box("{count: 12, capacity: 1 TB, read: 6 GB/s, write: 3 GB/s}"));
  ASSERT_EQ(machine.drives.size(), 2U);
  EXPECT_EQ(machine.drives[1].path, "/b");
  EXPECT_EQ(machine.drives[1].write.bytes_per_second, 3e9);
}

TEST(DriveBudgets, WhatDoesNotGoTogetherIsRefusedInWords) {
  const std::string where = "job.yaml:3: budget.drive: ";
  EXPECT_EQ(error_of("[1 GB, 2 GB]"), where +
                                          "machine 'box' has no drives, and 2 drives need a path "
                                          "each; expected {path: FOLDER, capacity: SIZE} for each");
  EXPECT_EQ(error_of("[1 GB, {path: /a, capacity: 2 GB}]"),
            where +
                "some drives have a path and some have none; expected a path for each, or for "
                "none");
  EXPECT_EQ(error_of("[{path: /a, capacity: 1 GB}, {path: /a/, capacity: 2 GB}]"),
            where + "'/a/' is given twice; expected a folder on another drive");
  const Machine named = box("{path: /a, capacity: 1 TB, read: 1 GB/s, endurance: 1 TB}");
  EXPECT_EQ(error_of("{path: /b, capacity: 1 GB}", named),
            where + "machine 'box' has no drive with the path '/b'; expected one of /a");
  EXPECT_EQ(error_of("{path: /a, capacity: 1 GB, read: 2 GB/s}", named),
            where + "the machine file gives 'read' of drive ssd0; expected it in one of the two");
  EXPECT_EQ(
      error_of("{path: /a, capacity: 1 GB, endurance: 2 TB}", named),
      where + "the machine file gives 'endurance' of drive ssd0; expected it in one of the two");
  EXPECT_EQ(error_of("{capacity: 1 GB, read: 2 GB/s, held: true}"),
            where + "'held' of drive ssd0 without both rates; expected `read` and `write`, too");
  EXPECT_EQ(error_of("[1 GB, 2 GB]", named),
            where +
                "machine 'box' has 1 drive, expected a size for each of them, or one for all; "
                "found 2");
  EXPECT_EQ(
      error_of("[{path: /a, capacity: 1 GB}, {path: /b, capacity: 1 GB}]", box("{capacity: 1 TB}")),
      where + "machine 'box' has 1 drive, expected at most as many; found 2");
}

TEST(DriveBudgets, TheKeyReadsBackAsItIsWritten) {
  for (const std::string text :
       {"null", "500 GiB", "{path: \"a, b: {c}\", capacity: 5 GB}",
        "{capacity: 5 GB, read: 2 GB/s}",
        "{capacity: 5 GB, read: 2 GB/s, write: 1 GB/s, held: true}", "[5 GB, 6 GB]",
        "[{path: /a, capacity: 5 GB, write: 1500 MB/s, endurance: 1 TB}, "
        "{path: b, capacity: 1}]"}) {
    SCOPED_TRACE(text);
    if (text.ends_with("1}]")) {
      EXPECT_THROW(job_with(text), UserError);  // a size has a unit
      continue;
    }
    const Job job = job_with(text);
    EXPECT_EQ(parse_job(to_yaml(job), "job.yaml").budget, job.budget);
    const std::vector<std::string> overrides = {"budget.drive=" + text};
    EXPECT_EQ(parse_job("model: m\n", "job.yaml", overrides).budget, job.budget);
  }
}

TEST(DriveBudgets, AnotherFormIsRefusedWithTheRightOne) {
  for (const std::string text : {"/nvme0", "{path: /nvme0}", "{size: 1 GB}", "[]", "{}", "0 B",
                                 "{capacity: 1 GB, read: 0 GB/s}", "{capacity: 1 GB, held: 1}",
                                 "{capacity: 1 GB, path: [a]}"}) {
    SCOPED_TRACE(text);
    try {
      job_with(text);
      ADD_FAILURE() << "no error";
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find("{path: FOLDER, capacity: SIZE}"), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace ferry
