#include "spec/drive_array.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace ferry {
namespace {

struct Rates {
  double read;   // GB/s
  double write;  // GB/s
};

Drive drive(Rates rates, Bytes capacity = 1000_GiB) {
  return {.capacity = capacity, .read = {rates.read * 1e9}, .write = {rates.write * 1e9}};
}

Machine with_drives(std::vector<Drive> drives) {
  Machine machine;
  machine.drives = std::move(drives);
  return machine;
}

// The seconds in which the array reads and writes a byte.
double both_ways(const DriveArray& array) {
  const double read = 1 / array.read.bytes_per_second;
  const double write = 1 / array.write.bytes_per_second;
  return array.duplex ? std::max(read, write) : read + write;
}

double both_ways(const std::vector<Drive>& drives, const std::vector<double>& shares) {
  double read = 0;
  double write = 0;
  for (std::size_t i = 0; i < drives.size(); ++i) {
    read = std::max(read, shares[i] / drives[i].read.bytes_per_second);
    write = std::max(write, shares[i] / drives[i].write.bytes_per_second);
  }
  return drives.front().duplex ? std::max(read, write) : read + write;
}

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// The least time over a grid of shares of three drives that hold `need`; no grid point may be
// better than what is chosen.
double least_on_grid(const std::vector<Drive>& drives, Bytes need) {
  constexpr int kGrid = 120;
  double least = 1e300;
  for (int a = 0; a <= kGrid; ++a) {
    for (int b = 0; a + b <= kGrid; ++b) {
      const std::vector<double> shares = {a / double{kGrid}, b / double{kGrid},
                                          (kGrid - a - b) / double{kGrid}};
      bool holds = true;
      for (std::size_t i = 0; i < drives.size(); ++i) {
        holds = holds && shares[i] * static_cast<double>(need.count) <=
                             static_cast<double>(drives[i].capacity.count);
      }
      if (holds) least = std::min(least, both_ways(drives, shares));
    }
  }
  return least;
}

std::vector<Drive> random_drives(std::mt19937_64& random, std::size_t count) {
  const bool duplex = random() % 3 == 0;
  std::vector<Drive> drives;
  for (std::size_t d = 0; d < count; ++d) {
    const auto tenth = [&random](int most) {
      return static_cast<double>(1 + random() % static_cast<unsigned>(most)) / 10;
    };
    drives.push_back(drive({tenth(70), tenth(50)}, 1_GiB * static_cast<int>(1 + random() % 9)));
    drives.back().duplex = duplex;
  }
  return drives;
}

TEST(DriveArray, EqualDrivesDoWhatOneDoesSoManyTimes) {
  const DriveArray array = drive_array(with_drives(std::vector(12, drive({6.5, 3.4}))), 1_GiB);
  EXPECT_EQ(array.count, 12);
  EXPECT_EQ(array.capacity, 1000_GiB * 12);
  EXPECT_EQ(array.read.bytes_per_second, 12 * 6.5e9);
  EXPECT_EQ(array.write.bytes_per_second, 12 * 3.4e9);
  EXPECT_EQ(array.shares, std::vector(12, 1.0 / 12));
}

TEST(DriveArray, ASlowDriveTakesASmallShare) {
  const DriveArray array = drive_array(with_drives({drive({6, 3}), drive({6, 3}), drive({2, 1})}));
  EXPECT_NEAR(array.shares[0], 3.0 / 7, 1e-12);
  EXPECT_NEAR(array.shares[2], 1.0 / 7, 1e-12);
  EXPECT_NEAR(array.read.bytes_per_second, 14e9, 1);
  EXPECT_NEAR(array.write.bytes_per_second, 7e9, 1);
}

TEST(DriveArray, ADriveWithoutRatesHasNoShare) {
  const Machine machine = with_drives({drive({0, 3}), drive({6, 3})});
  const DriveArray array = drive_array(machine);
  EXPECT_EQ(array.count, 1);
  EXPECT_EQ(array.shares, (std::vector<double>{0, 1}));
  EXPECT_EQ(array.read.bytes_per_second, 6e9);
  EXPECT_EQ(drive_array(with_drives({drive({0, 0})})).count, 0);
  EXPECT_EQ(drive_array(with_drives({})).count, 0);
}

// Two of equal rates, one nearly full: together they would hold twice what that one has free.
TEST(DriveArray, ASmallFastDriveDoesNotWasteALargeOne) {
  const Machine machine = with_drives({drive({6, 3}, 50_GiB), drive({6, 3}, 1500_GiB)});
  EXPECT_EQ(drive_array(machine, 80_GiB).capacity, 100_GiB);
  EXPECT_NEAR(drive_array(machine, 80_GiB).read.bytes_per_second, 12e9, 1);
  const DriveArray roomy = drive_array(machine, 200_GiB);
  EXPECT_GE(roomy.capacity, 200_GiB);
  EXPECT_NEAR(roomy.shares[0], 0.25, 1e-9);
  EXPECT_NEAR(roomy.read.bytes_per_second, 8e9, 10);
  EXPECT_EQ(drive_array(machine, 9000_GiB).capacity, 1550_GiB);
}

TEST(DriveArray, IsAsFastAsAnyShares) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const std::vector<Drive> drives = random_drives(random, 3);
    const Bytes all = drives[0].capacity + drives[1].capacity + drives[2].capacity;
    for (const int percent : {0, 50, 80, 95}) {
      const Bytes need = Bytes{all.count / 100 * percent};
      const DriveArray array = drive_array(with_drives(drives), need);
      EXPECT_NEAR(sum(array.shares), 1, 1e-9);
      EXPECT_LE(both_ways(array), least_on_grid(drives, need) * (1 + 1e-9));
      EXPECT_NEAR(both_ways(array) / both_ways(drives, array.shares), 1, 1e-9);
      EXPECT_GE(array.capacity, need);
      EXPECT_LE(array.capacity, all);
      for (std::size_t d = 0; d < drives.size(); ++d) {
        EXPECT_LE(array.shares[d] * static_cast<double>(array.capacity.count),
                  static_cast<double>(drives[d].capacity.count) * (1 + 1e-9));
      }
    }
  }
}

TEST(DriveArray, NoDriveMakesItSlower) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    std::vector<Drive> drives = random_drives(random, 2);
    const double two = both_ways(drive_array(with_drives(drives)));
    drives.push_back(drive({0.01 * static_cast<double>(1 + random() % 300), 0.02}));
    drives.back().duplex = drives.front().duplex;
    const DriveArray three = drive_array(with_drives(drives));
    EXPECT_LE(both_ways(three), two * (1 + 1e-9));
  }
}

// What a trainer asks for that knows the plan only.
TEST(DriveArray, ThePlansPlaceGivesTheSameShares) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const Machine machine = with_drives(random_drives(random, 1 + random() % 5));
    const DriveArray array = drive_array(machine, 1_GiB * static_cast<int>(random() % 20));
    const std::vector<double> again = drive_shares(machine, array.capacity);
    for (std::size_t d = 0; d < again.size(); ++d) EXPECT_NEAR(again[d], array.shares[d], 1e-6);
  }
}

TEST(DriveArray, TheFirstToWearOutEndsItsLife) {
  std::vector<Drive> drives = {drive({6, 3}), drive({6, 3}), drive({6, 3})};
  EXPECT_FALSE(drive_array(with_drives(drives)).endurance);
  drives[0].endurance = 100_GiB;
  drives[1].endurance = 80_GiB;  // nothing is known of the third
  EXPECT_NEAR(static_cast<double>(drive_array(with_drives(drives)).endurance->count),
              static_cast<double>((240_GiB).count), 10);
}

TEST(DriveArray, RatesFarApartStayFinite) {
  const DriveArray array = drive_array(
      with_drives({drive({1e9, 1e9}, 1_GiB), drive({1e-9, 1e-9}), drive({1e-9, 1e9})}), 900_GiB);
  EXPECT_NEAR(sum(array.shares), 1, 1e-9);
  EXPECT_GE(array.capacity, 900_GiB);
  EXPECT_GT(array.read.bytes_per_second, 0);
}

TEST(DriveArray, TakesTheCoresOfTheDrivesThatItKeepsBusy) {
  Machine machine;
  machine.drives = {drive({6.0, 3.0}, 1_GiB), drive({6.0, 3.0}, 1_GiB)};
  for (Drive& one : machine.drives) one.cores = 0.3;
  EXPECT_NEAR(drive_array(machine).cores, 0.6, 1e-9);
  machine.drives[1].read = {};  // no rates, no share
  EXPECT_NEAR(drive_array(machine).cores, 0.3, 1e-9);
}

}  // namespace
}  // namespace ferry
