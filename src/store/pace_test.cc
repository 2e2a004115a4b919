#include "store/pace.h"

#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <vector>

#include "store/drive_space.h"
#include "store/faulty_drive.h"
#include "store/host_slab.h"
#include "store/temporary_folders.h"

namespace ferry {
namespace {

using std::chrono::milliseconds;
using Time = Pace::Clock::time_point;

constexpr std::size_t kRequest = 1'000'000;  // 10 ms to read, 20 ms to write
constexpr HeldRates kRates{.read = 100e6, .write = 50e6};

Time at(int ms) { return Time(milliseconds(ms)); }

TEST(Pace, RequestsFollowEachOtherAtTheRateOfTheirKind) {
  Pace pace(kRates);
  pace.arrive(IoKind::read, at(100));
  EXPECT_EQ(pace.begins(IoKind::read, kRequest), at(110));
  pace.begin(IoKind::read, kRequest);
  EXPECT_EQ(pace.begins(IoKind::write, kRequest), at(130));
  pace.begin(IoKind::write, kRequest);
  EXPECT_EQ(pace.begins(IoKind::read, kRequest), at(140));
}

TEST(Pace, WaysOfADuplexDriveDoNotWaitForEachOther) {
  Pace pace({.read = 100e6, .write = 50e6, .duplex = true});
  pace.arrive(IoKind::read, at(100));
  pace.arrive(IoKind::write, at(100));
  pace.begin(IoKind::read, kRequest);
  EXPECT_EQ(pace.begins(IoKind::read, kRequest), at(120));
  EXPECT_EQ(pace.begins(IoKind::write, kRequest), at(120));
}

TEST(Pace, WhatADriveDidNotDoWhileNobodyAskedIsLost) {
  Pace pace(kRates);
  pace.arrive(IoKind::read, at(0));
  pace.begin(IoKind::read, kRequest);
  pace.arrive(IoKind::read, at(1000));
  EXPECT_EQ(pace.begins(IoKind::read, kRequest), at(1010));
}

/// Moves 4 MiB each way in transfers of 1 MiB, on a drive in memory that is held to rates, and
/// returns the seconds.
double seconds_of(bool duplex) {
  const TemporaryFolders folders(1);
  FaultyDrives drives;
  HostSlab memory(8_MiB);
  DriveSpace space({.name = "ssd0",
                    .parts = {{.folder = folders[0],
                               .held = HeldRates{.read = 64e6, .write = 32e6, .duplex = duplex}}},
                    .size = 8_MiB,
                    .engine = drives.engines()});
  std::vector<std::future<void>> moved;
  const auto begin = Pace::Clock::now();
  for (Bytes at; at < 4_MiB; at += 1_MiB) {
    const auto tell = [&] {
      const auto done = std::make_shared<std::promise<void>>();
      moved.push_back(done->get_future());
      return [done](const std::exception_ptr& error) {
        error ? done->set_exception(error) : done->set_value();
      };
    };
    space.read(at, memory.at(at, 1_MiB), tell());
    space.write(4_MiB + at, memory.at(4_MiB + at, 1_MiB), tell());
  }
  for (std::future<void>& one : moved) one.get();
  return std::chrono::duration<double>(Pace::Clock::now() - begin).count();
}

// 4 MiB take 0.066 s to read and 0.131 s to write.
TEST(HeldDrives, MoveNoFasterThanTheirRates) { EXPECT_GE(seconds_of(/*duplex=*/false), 0.196); }

TEST(HeldDrives, MoveNoFasterThanTheirSlowerWayWhereTheyAreDuplex) {
  EXPECT_GE(seconds_of(/*duplex=*/true), 0.131);
}

}  // namespace
}  // namespace ferry
