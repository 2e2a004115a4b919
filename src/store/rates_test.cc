#include "store/rates.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include "base/error.h"
#include "store/temporary_folders.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

std::string error_of(const fs::path& folder, Bytes size) {
  try {
    measure_drive(folder, size, 2);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Rates, AStreamOverMemoryHasARate) {
  EXPECT_GT(dram_bandwidth(16_MiB, 2), 0);
  EXPECT_GT(dram_bandwidth(1_B, 3), 0);  // more threads than elements
}

TEST(Rates, ADriveIsMeasuredAndNothingIsLeft) {
  for (const int threads : {1, 2}) {
    const TemporaryFolders folders(1);
    const auto rates = measure_drive(folders[0], 9_MiB, threads);
    if (rates) {  // not on a file system without O_DIRECT
      EXPECT_GT(rates->read, 0);
      EXPECT_GT(rates->write, 0);
      EXPECT_GE(rates->cores, 0);
      EXPECT_LE(rates->cores, threads);
    }
    EXPECT_TRUE(fs::is_empty(folders[0]));
  }
}

TEST(Rates, ReadsAndWritesShareADrivesTime) {
  const DriveRates fair = rates_at_once(6_GiB, 2, 4, 3);
  EXPECT_DOUBLE_EQ(fair.read, 3.0 * (1_GiB).count);
  EXPECT_DOUBLE_EQ(fair.write, 1.5 * (1_GiB).count);
  EXPECT_FALSE(fair.duplex);
  const DriveRates worse = rates_at_once(6_GiB, 2, 4, 6);  // twice as long as one after the other
  EXPECT_DOUBLE_EQ(worse.read, fair.read / 2);
  EXPECT_DOUBLE_EQ(worse.write, fair.write / 2);
}

TEST(Rates, ADuplexDriveTakesAsLongAsTheSlowerOfBoth) {
  const DriveRates full = rates_at_once(6_GiB, 2, 4, 2);
  EXPECT_TRUE(full.duplex);
  EXPECT_DOUBLE_EQ(full.write, 1.5 * (1_GiB).count);
  const DriveRates nearly = rates_at_once(6_GiB, 2, 4, 2.4);
  EXPECT_TRUE(nearly.duplex);
  EXPECT_DOUBLE_EQ(nearly.write, full.write / 1.2);
  EXPECT_FALSE(rates_at_once(6_GiB, 2, 4, 2.5).duplex) << "nearer to 3 than to 2";
}

TEST(Rates, AFolderThatIsNotThereIsTheUsersError) {
  EXPECT_THROW(measure_drive("/nowhere/at/all", 1_MiB, 2), UserError);
}

TEST(Rates, AFileLargerThanTheDriveIsRefusedWithNeedAndHave) {
  const TemporaryFolders folders(1);
  const std::string error = error_of(folders[0], Bytes{std::int64_t{1} << 60});
  EXPECT_NE(error.find("needs"), std::string::npos) << error;
  EXPECT_NE(error.find("the drive has"), std::string::npos) << error;
  EXPECT_NE(error.find("--drive-size"), std::string::npos) << error;
  EXPECT_TRUE(fs::is_empty(folders[0]));
}

TEST(Rates, AFailedMeasurementLeavesNothing) {
  const TemporaryFolders folders(1);
  if (!measure_drive(folders[0], 1_MiB, 2)) GTEST_SKIP() << "no O_DIRECT here";
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit usual{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &usual), 0);
  const rlimit small{.rlim_cur = 4 << 20, .rlim_max = usual.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string error = error_of(folders[0], 16_MiB);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &usual), 0);
  std::signal(SIGXFSZ, before);
  EXPECT_NE(error.find("ulimit -f"), std::string::npos) << error;
  EXPECT_TRUE(fs::is_empty(folders[0]));
}

}  // namespace
}  // namespace ferry
