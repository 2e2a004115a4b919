#include "cli/drive_rates.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "spec/fake_box.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

// A box whose folders are all on one drive but those named "other".
struct Box {
  FakeBox scratch{testing::UnitTest::GetInstance()->current_test_info()->name()};
  std::vector<fs::path> measured;
  bool direct = true;

  fs::path folder(const std::string& name) {
    fs::create_directories(scratch.path() / name);
    return scratch.path() / name;
  }

  Machine with(const std::vector<fs::path>& paths) {
    Machine machine;
    for (const fs::path& path : paths) machine.drives.push_back({.path = path.string()});
    return machine;
  }

  void measure(Machine& machine, const fs::path& to_be_made = "runs/job") {
    const DriveProbe probe{
        .drive_of = [](const fs::path& path) { return path.filename() == "other" ? "b" : "a"; },
        .measure = [this](const fs::path& path) -> std::optional<DriveRates> {
          measured.push_back(path);
          return direct ? std::optional(DriveRates{4e9, 2e9, 0.5, true}) : std::nullopt;
        }};
    measure_missing_rates(machine, to_be_made, probe);
  }
};

TEST(DriveRates, WhatIsGivenIsNotMeasured) {
  Box box;
  Machine machine = box.with({"/not/here"});
  machine.drives[0].read = {1e9};
  machine.drives[0].write = {2e9};
  machine.drives.push_back({});  // without a path: not of this box
  box.measure(machine);
  EXPECT_TRUE(box.measured.empty());

  machine = box.with({box.folder("one")});
  machine.drives[0].read = {1e9};
  box.measure(machine);
  EXPECT_EQ(machine.drives[0].read.bytes_per_second, 1e9);
  EXPECT_EQ(machine.drives[0].write.bytes_per_second, 2e9);
}

TEST(DriveRates, FoldersOnOneDriveShareItsRates) {
  Box box;
  Machine machine = box.with({box.folder("one"), box.folder("two"), box.folder("other")});
  box.measure(machine);
  EXPECT_EQ(box.measured.size(), 2U);
  EXPECT_EQ(machine.drives[0].read.bytes_per_second, 2e9);
  EXPECT_EQ(machine.drives[1].write.bytes_per_second, 1e9);
  EXPECT_EQ(machine.drives[2].read.bytes_per_second, 4e9);
  EXPECT_EQ(machine.drives[0].cores, 0.25);
  EXPECT_EQ(machine.drives[2].cores, 0.5);
  EXPECT_TRUE(machine.drives[0].duplex && machine.drives[2].duplex);
}

TEST(DriveRates, TheJobsFolderNeedNotBeThereYet) {
  Box box;
  const fs::path above = box.folder("runs");
  Machine machine = box.with({above / "a" / "b"});
  box.measure(machine, above / "a" / "b");
  EXPECT_EQ(box.measured, std::vector{above});
  EXPECT_EQ(machine.drives[0].read.bytes_per_second, 4e9);
}

TEST(DriveRates, AMissingFolderIsRefused) {
  Box box;
  Machine machine = box.with({"/nowhere/at/all"});
  try {
    box.measure(machine);
    ADD_FAILURE() << "no error";
  } catch (const JobKeyError& error) {
    EXPECT_EQ(std::string(error.what()),
              "budget.drive: no folder '/nowhere/at/all' here, and its rates are not known; make "
              "the folder, or give its rates: {path: /nowhere/at/all, capacity: SIZE, read: RATE, "
              "write: RATE}");
  }
}

TEST(DriveRates, AFileSystemWithoutDirectIoAsksForRates) {
  Box box;
  box.direct = false;
  Machine machine = box.with({box.folder("one")});
  try {
    box.measure(machine);
    ADD_FAILURE() << "no error";
  } catch (const JobKeyError& error) {
    EXPECT_NE(std::string(error.what()).find("refuses direct I/O"), std::string::npos);
  }
}

}  // namespace
}  // namespace ferry
