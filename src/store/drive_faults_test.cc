// What DriveSpace makes of drives that fail: a clear error or success, never wrong bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <string>

#include "base/error.h"
#include "store/drive_space.h"
#include "store/faulty_drive.h"
#include "store/host_slab.h"

namespace ferry {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kLimit{60};

DriveSpace::Setup on(FaultyDrives& drives, std::vector<DriveSpace::Part> parts) {
  return {.name = "ssd0",
          .parts = std::move(parts),
          .size = 64_KiB,
          .request = 8_KiB,
          .in_flight = 3,
          .time_limit = kLimit,
          .engine = drives.engines()};
}

DriveSpace::Setup on(FaultyDrives& drives) { return on(drives, {{"/nvme0", 2}, {"/nvme1", 1}}); }

/// Writes numbers over the whole space and reads them back: the error, or "" when all is well, or
/// "wrong bytes".
std::string work(DriveSpace& space) {
  HostSlab written(64_KiB), found(64_KiB);
  for (std::size_t i = 0; i < written.bytes().size(); ++i) {
    written.bytes()[i] = static_cast<std::byte>(i * 31 + i / 256);
  }
  try {
    space.write_now(0_B, written.bytes());
    space.read_now(0_B, found.bytes());
  } catch (const ResourceError& error) {
    return error.what();
  }
  return std::ranges::equal(written.bytes(), found.bytes()) ? "" : "wrong bytes";
}

std::int64_t requests_without_faults() {
  FaultyDrives drives;
  DriveSpace space(on(drives));
  EXPECT_EQ(work(space), "");
  return drives.requests();
}

std::string work_with(const DriveFaults& faults) {
  FaultyDrives drives(faults);
  DriveSpace space(on(drives));
  return work(space);
}

TEST(DriveFaults, AFailureAtAnyRequestIsToldWithDriveOffsetAndReason) {
  const std::int64_t requests = requests_without_faults();
  ASSERT_GE(requests, 16);
  for (const DriveFault fault : {DriveFault::fail, DriveFault::tear}) {
    for (std::int64_t n = 0; n < requests; ++n) {
      const std::string text = work_with({.fault = fault, .first = n});
      EXPECT_NE(text.find("ssd0: "), std::string::npos) << n << ": " << text;
      EXPECT_NE(text.find(" failed: /nvme"), std::string::npos) << n << ": " << text;
      EXPECT_NE(text.find("at byte "), std::string::npos) << n << ": " << text;
      EXPECT_NE(text.find("Input/output error"), std::string::npos) << n << ": " << text;
    }
    EXPECT_EQ(work_with({.fault = fault, .first = requests}), "");
  }
}

TEST(DriveFaults, ShortAndLateTransfersAtAnyRequestGoOn) {
  const std::int64_t requests = requests_without_faults();
  for (const DriveFault fault : {DriveFault::shorten, DriveFault::delay}) {
    for (std::int64_t n = 0; n < requests; ++n) {
      EXPECT_EQ(work_with({.fault = fault, .first = n}), "") << n;
    }
  }
}

TEST(DriveFaults, OfAPageThatComesInPiecesTheWholeIsMovedAgain) {
  FaultyDrives drives({.fault = DriveFault::shorten, .first = 0, .count = 1});
  DriveSpace space(on(drives, {{"/nvme0", 1}}));
  HostSlab memory(4_KiB);
  std::ranges::fill(memory.bytes(), std::byte{7});
  space.write_now(0_B, memory.bytes());
  EXPECT_EQ(drives.requests(), 2);
}

TEST(DriveFaults, ADriveThatNeverMovesAPageIsLate) {
  FaultyDrives drives({.fault = DriveFault::shorten, .first = 0, .count = INT64_MAX});
  DriveSpace space(on(drives));
  EXPECT_NE(work(space).find("no answer within 60.00 ms"), std::string::npos) << work(space);
}

TEST(DriveFaults, ADriveThatStopsAnsweringAtAnyRequestFailsByNameAndNothingHangs) {
  const std::int64_t requests = requests_without_faults();
  for (std::int64_t n = 0; n < requests; ++n) {
    const std::string text = work_with({.fault = DriveFault::forget, .first = n});
    EXPECT_NE(text.find("/nvme"), std::string::npos) << n << ": " << text;
    EXPECT_NE(text.find("no answer within"), std::string::npos) << n << ": " << text;
  }
}

TEST(DriveFaults, ADriveThatStoppedAnsweringIsNotAskedAgain) {
  FaultyDrives drives({.fault = DriveFault::forget, .first = 0, .count = INT64_MAX});
  DriveSpace space(on(drives, {{"/nvme0", 1}}));
  const std::string first = work(space);
  const std::int64_t asked = drives.requests();
  EXPECT_EQ(work(space), first);
  EXPECT_EQ(drives.requests(), asked);
}

TEST(DriveFaults, TheOtherDriveGoesOn) {
  FaultyDrives drives({.fault = DriveFault::forget, .first = 0, .count = 1, .only = IoKind::write});
  DriveSpace space(on(drives));
  HostSlab memory(64_KiB);
  EXPECT_THROW(space.write_now(0_B, memory.bytes()), ResourceError);
  int lost = 0, kept = 0;
  for (Bytes at; at < 64_KiB; at += 4_KiB) {
    try {
      space.read_now(at, memory.at(at, 4_KiB));
      ++kept;
    } catch (const ResourceError&) {
      ++lost;
    }
  }
  EXPECT_GT(lost, 0);
  EXPECT_GT(kept, 0);
}

TEST(DriveFaults, AFullDriveIsToldAsThat) {
  const std::string text =
      work_with({.fault = DriveFault::fail, .first = 3, .only = IoKind::write, .error = ENOSPC});
  EXPECT_NE(text.find("ssd0: write failed: /nvme"), std::string::npos) << text;
  EXPECT_NE(text.find("No space left on device"), std::string::npos) << text;
}

TEST(DriveFaults, InterruptedRequestsAreAskedAgain) {
  EXPECT_EQ(work_with({.fault = DriveFault::fail, .first = 0, .count = 9, .error = EINTR}), "");
  EXPECT_EQ(work_with({.fault = DriveFault::fail, .first = 0, .count = 9, .error = EAGAIN}), "");
}

TEST(DriveFaults, AfterAFailureTheSpaceWorks) {
  FaultyDrives drives({.fault = DriveFault::fail, .first = 2});
  DriveSpace space(on(drives));
  EXPECT_NE(work(space), "");
  EXPECT_EQ(work(space), "");
}

TEST(DriveFaults, AnErrorIsToldWhenNoRequestOfTheTransferIsUnderWay) {
  // The first request fails at once, the second is slow: until it is there, memory is in use.
  FaultyDrives drives({.fault = DriveFault::delay, .first = 0, .delay = kLimit / 2});
  FaultyDrives failing({.fault = DriveFault::fail, .first = 0});
  DriveSpace::Setup setup = on(drives);
  setup.engine = [slow = drives.engines(), bad = failing.engines()](
                     const std::filesystem::path& folder, Bytes size) {
    return folder == "/nvme0" ? slow(folder, size) : bad(folder, size);
  };
  setup.parts = {{"/nvme0", 1}, {"/nvme1", 1}};
  DriveSpace space(std::move(setup));
  HostSlab memory(16_KiB);
  std::ranges::fill(memory.bytes(), std::byte{7});
  EXPECT_THROW(space.read_now(0_B, memory.bytes()), ResourceError);
  EXPECT_EQ(memory.bytes()[0], std::byte{0});  // the slow one has been there
}

TEST(DriveFaults, DestructionDoesNotWaitForADriveThatForgets) {
  FaultyDrives drives({.fault = DriveFault::forget, .first = 0, .count = INT64_MAX});
  HostSlab memory(64_KiB);
  std::atomic<int> errors = 0;
  const auto start = std::chrono::steady_clock::now();
  {
    DriveSpace space(on(drives));
    for (int i = 0; i < 4; ++i) {
      space.write(16_KiB * i, memory.at(16_KiB * i, 16_KiB), [&](const std::exception_ptr& error) {
        if (error) ++errors;
      });
    }
  }
  EXPECT_EQ(errors, 4);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST(DriveFaults, ADriveThatCannotBeOpenedIsRefused) {
  FaultyDrives drives;
  DriveSpace::Setup setup = on(drives);
  setup.engine = [](const std::filesystem::path& folder, Bytes) -> std::unique_ptr<IoEngine> {
    throw ResourceError(folder.string() + ": cannot use a file there");
  };
  EXPECT_THROW(DriveSpace{std::move(setup)}, ResourceError);
}

// Sixteen requests one after the other are ahead of the one; first come, first served would move
// all of them before it.
TEST(DriveFaults, ASmallTransferDoesNotWaitForALargeOne) {
  FaultyDrives drives({.fault = DriveFault::delay, .count = 1'000, .delay = 10ms});
  DriveSpace::Setup setup = on(drives, {{"/nvme0", 1}});
  setup.request = 4_KiB;
  setup.in_flight = 1;
  setup.time_limit = 10s;
  DriveSpace space(std::move(setup));
  HostSlab slab(64_KiB);
  const auto begin = [&](Bytes size, std::promise<void>& done) {
    space.write(0_B, slab.at(0_B, size), [&done](std::exception_ptr) { done.set_value(); });
    return done.get_future();
  };
  std::promise<void> large, small;
  const std::future<void> large_done = begin(64_KiB, large);
  begin(4_KiB, small).wait();
  EXPECT_EQ(large_done.wait_for(0s), std::future_status::timeout);
  large_done.wait();
}

}  // namespace
}  // namespace ferry
