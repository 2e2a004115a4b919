#include "store/drive_space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <random>
#include <thread>

#include "base/drive_page.h"
#include "base/error.h"
#include "store/faulty_drive.h"
#include "store/host_slab.h"
#include "store/temporary_folders.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

std::vector<DriveSpace::Part> parts_in(const TemporaryFolders& folders,
                                       const std::vector<double>& shares) {
  std::vector<DriveSpace::Part> parts;
  for (std::size_t i = 0; i < shares.size(); ++i)
    parts.push_back({.folder = folders[i], .share = shares[i]});
  return parts;
}

/// Counts transfers that are under way and keeps the first error.
class Waiter {
 public:
  DriveSpace::Done one() {
    const std::lock_guard lock(mutex_);
    ++left_;
    return [this](std::exception_ptr error) {
      const std::lock_guard inner(mutex_);
      if (error && !error_) error_ = std::move(error);
      --left_;
      changed_.notify_all();
    };
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return left_ == 0; });
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int left_ = 0;
  std::exception_ptr error_;
};

void fill(std::span<std::byte> memory, std::mt19937& random) {
  for (std::size_t at = 0; at < memory.size(); at += 4) {
    const auto number = static_cast<std::uint32_t>(random());
    std::memcpy(memory.data() + at, &number, 4);
  }
}

bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

/// Random writes and reads of a stretch of the space, several at a time, against an array. `length`
/// is a power of two.
void exercise(DriveSpace& space, Bytes begin, Bytes length, unsigned seed) {
  std::mt19937 random(seed);
  const auto pages = static_cast<int>(length.count / kDrivePage.count);
  HostSlab oracle(length), found(length);
  space.use_memory(found.bytes());
  fill(oracle.bytes(), random);
  space.write_now(begin, oracle.bytes());
  for (int round = 0; round < 6; ++round) {
    std::vector<int> cuts = {0, pages};
    for (int i = 0; i < 6; ++i) cuts.push_back(static_cast<int>(random()) & (pages - 1));
    std::ranges::sort(cuts);
    Waiter waiter;
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      const Bytes from = kDrivePage * cuts[i];
      const Bytes size = kDrivePage * (cuts[i + 1] - cuts[i]);
      if (random() % 2 == 0) {
        fill(oracle.at(from, size), random);
        space.write(begin + from, oracle.at(from, size), waiter.one());
      } else {
        space.read(begin + from, found.at(from, size), waiter.one());
      }
    }
    waiter.wait();
    std::ranges::fill(found.bytes(), std::byte{0});
    space.read_now(begin, found.bytes());
    ASSERT_TRUE(equal(found.bytes(), oracle.bytes())) << "seed " << seed << ", round " << round;
  }
}

class DriveSpaceTest : public testing::TestWithParam<IoChoice> {
 protected:
  void SetUp() override {
    if (GetParam() != IoChoice::io_uring) return;
    try {
      const DriveSpace space(setup({1}, 1_MiB));
      EXPECT_EQ(space.io(), "io_uring, direct");
    } catch (const ResourceError& error) {
      GTEST_SKIP() << error.what();
    }
  }
  DriveSpace::Setup setup(const std::vector<double>& shares, Bytes size) const {
    return {.name = "ssd0", .parts = parts_in(folders_, shares), .size = size, .io = GetParam()};
  }
  const TemporaryFolders folders_{3};
};

TEST_P(DriveSpaceTest, WhatWasWrittenIsReadFromSeveralThreads) {
  DriveSpace::Setup setup = this->setup({3, 1.5, 1}, 12_MiB);
  setup.request = 64_KiB;
  DriveSpace space(std::move(setup));
  EXPECT_EQ(space.size(), 12_MiB);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] { exercise(space, 4_MiB * i, 4_MiB, static_cast<unsigned>(i)); });
  }
}

TEST_P(DriveSpaceTest, OneDriveHoldsTheSpaceAlone) {
  DriveSpace space(setup({1}, 5_MiB));
  exercise(space, 4_KiB, 4_MiB, 11);
}

TEST_P(DriveSpaceTest, NothingIsSeenInTheFolders) {
  const DriveSpace space(setup({1, 1}, 4_MiB));
  EXPECT_TRUE(fs::is_empty(folders_[0]));
  EXPECT_TRUE(fs::is_empty(folders_[1]));
}

TEST_P(DriveSpaceTest, TrafficIsCountedPerDrive) {
  DriveSpace space(setup({3, 1}, 8_MiB));
  HostSlab memory(8_MiB);
  space.write_now(0_B, memory.bytes());
  space.read_now(0_B, memory.at(0_B, 4_MiB));
  const DriveTraffic traffic = space.traffic();
  ASSERT_EQ(traffic.parts.size(), 2u);
  EXPECT_EQ(traffic.parts[0].folder, folders_[0]);
  EXPECT_EQ(traffic.parts[0].counts.written, 6_MiB);
  EXPECT_EQ(traffic.parts[1].counts.written, 2_MiB);
  EXPECT_EQ(traffic.parts[0].counts.read, 3_MiB);
  EXPECT_EQ(traffic.total().written, 8_MiB);
  EXPECT_EQ(traffic.total().read, 4_MiB);
  EXPECT_GE(traffic.total().writes, 8);
}

TEST_P(DriveSpaceTest, TransfersMayStartTransfersAndNothingIsATransferToo) {
  DriveSpace space(setup({1, 1}, 1_MiB));
  HostSlab memory(64_KiB);
  Waiter waiter;
  const auto last = waiter.one();
  space.write(0_B, memory.bytes(), [&](const std::exception_ptr& error) {
    ASSERT_FALSE(error);
    space.read(0_B, {}, last);
  });
  waiter.wait();
}

TEST_P(DriveSpaceTest, TransfersThatWaitAreToldWhenTheSpaceIsDestroyed) {
  HostSlab memory(16_MiB);
  std::atomic<int> told = 0;
  {
    DriveSpace::Setup setup = this->setup({1, 1}, 16_MiB);
    setup.in_flight = 1;
    setup.request = 64_KiB;
    DriveSpace space(std::move(setup));
    for (int i = 0; i < 16; ++i) {
      space.write(1_MiB * i, memory.at(1_MiB * i, 1_MiB),
                  [&](const std::exception_ptr& /*error*/) { ++told; });
    }
  }
  EXPECT_EQ(told, 16);
}

TEST_P(DriveSpaceTest, SpaceThatIsMissingIsRefusedWithNeedAndHave) {
  try {
    const DriveSpace space(setup({1, 1}, Bytes{std::int64_t{1} << 52}));
    FAIL() << "petabytes were granted";
  } catch (const ResourceError& error) {
    const std::string text = error.what();
    const std::string needed = "ssd0 needs 2048.00 TiB in " + folders_[0].string();
    EXPECT_NE(text.find(needed), std::string::npos) << text;
    EXPECT_NE(text.find("free"), std::string::npos) << text;
  }
  EXPECT_TRUE(fs::is_empty(folders_[0]));
}

TEST_P(DriveSpaceTest, AFolderThatIsNotThereIsTheUsersError) {
  DriveSpace::Setup setup = this->setup({1, 1}, 1_MiB);
  setup.parts[1].folder /= "nowhere";
  EXPECT_THROW(DriveSpace{std::move(setup)}, UserError);
}

std::string name_of(const testing::TestParamInfo<IoChoice>& choice) {
  switch (choice.param) {
    case IoChoice::best:
      return "Best";
    case IoChoice::io_uring:
      return "IoUring";
    case IoChoice::threads:
      return "Threads";
    case IoChoice::threads_buffered:
      return "ThreadsBuffered";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(Ways, DriveSpaceTest,
                         testing::Values(IoChoice::best, IoChoice::io_uring, IoChoice::threads,
                                         IoChoice::threads_buffered),
                         name_of);

TEST(DriveSpaceDeathTest, MisalignedUseIsCaught) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // A drive in memory: each death would leave a folder of its own behind.
  FaultyDrives drives;
  DriveSpace space(
      {.name = "ssd0", .parts = {{"/nvme0", 1}}, .size = 1_MiB, .engine = drives.engines()});
  HostSlab memory(64_KiB);
  const auto bytes = memory.bytes();
  EXPECT_DEATH(space.read_now(512_B, bytes), "not a multiple of 4096");
  EXPECT_DEATH(space.read_now(0_B, bytes.first(100)), "not a multiple of 4096");
  EXPECT_DEATH(space.read_now(0_B, bytes.subspan(512, 4096)), "begins at a multiple of 4096");
  EXPECT_DEATH(space.write_now(1_MiB, bytes), "leaves a space of 1048576 B");
}

}  // namespace
}  // namespace ferry
