#include "train/saving_times.h"

#include <gtest/gtest.h>

namespace ferry {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

const SavingTimes::Time kStart{};

TEST(SavingTimes, ByStepsAtEveryMultiple) {
  SavingTimes times({.every_steps = 4}, 0, kStart);
  EXPECT_FALSE(times.is_due(3, kStart));
  EXPECT_TRUE(times.is_due(4, kStart));
  times.succeeded(4, kStart);
  EXPECT_FALSE(times.is_due(4, kStart));
  EXPECT_TRUE(times.is_due(8, kStart));
}

TEST(SavingTimes, ByTimeCountsFromTheLastSave) {
  SavingTimes times({.every_steps = 100, .every_minutes = 30}, 0, kStart);
  EXPECT_FALSE(times.is_due(1, kStart + minutes(29)));
  EXPECT_TRUE(times.is_due(1, kStart + minutes(30)));
  times.succeeded(1, kStart + minutes(30));
  EXPECT_FALSE(times.is_due(2, kStart + minutes(59)));
  EXPECT_TRUE(times.is_due(2, kStart + minutes(60)));
}

TEST(SavingTimes, WithoutANewStepThereIsNothingToSave) {
  const SavingTimes times({.every_steps = 4, .every_minutes = 30}, 8, kStart);
  EXPECT_FALSE(times.is_due(8, kStart + minutes(90)));
  EXPECT_FALSE(times.is_unsaved(8));
  EXPECT_TRUE(times.is_unsaved(9));
}

TEST(SavingTimes, BothOffNeverSavesBeforeTheEnd) {
  const SavingTimes times({}, 0, kStart);
  EXPECT_FALSE(times.is_due(1000, kStart + minutes(1000)));
}

TEST(SavingTimes, AFailedSaveIsTriedAgainAfterWaitsThatDouble) {
  SavingTimes times({.every_steps = 4}, 0, kStart);
  EXPECT_EQ(times.failed(kStart), seconds(1));
  EXPECT_FALSE(times.is_due(8, kStart));  // a multiple, but too early
  EXPECT_TRUE(times.is_due(5, kStart + seconds(1)));
  EXPECT_EQ(times.failed(kStart + seconds(1)), seconds(2));
  EXPECT_FALSE(times.is_due(6, kStart + seconds(2)));
  EXPECT_TRUE(times.is_due(6, kStart + seconds(3)));
  times.succeeded(6, kStart + seconds(3));
  EXPECT_FALSE(times.is_due(7, kStart + seconds(60)));
  EXPECT_EQ(times.failed(kStart), seconds(1));
}

TEST(SavingTimes, TheLastSaveIsTriedAgainForTenMinutes) {
  SavingTimes times({.every_steps = 4}, 0, kStart);
  for (int i = 0; i < 20; ++i) times.failed(kStart);  // during the run
  SavingTimes::Time now = kStart + minutes(90);
  const SavingTimes::Time ended = now;
  EXPECT_EQ(times.failed_at_end(now), seconds(1));
  EXPECT_EQ(times.failed_at_end(now += seconds(1)), seconds(2));
  int tries = 2;
  for (auto wait = SavingTimes::Seconds(2); now < ended + minutes(10); ++tries) {
    now += std::chrono::duration_cast<SavingTimes::Time::duration>(wait);
    const auto next = times.failed_at_end(now);
    if (!next) break;
    wait = *next;
    EXPECT_LE(wait, seconds(30));
  }
  EXPECT_GE(now, ended + minutes(10));
  EXPECT_LE(now, ended + minutes(10) + seconds(30));
  EXPECT_EQ(tries, 24);
}

TEST(SavingTimes, NoWaitIsLongerThanTenMinutes) {
  SavingTimes times({.every_steps = 4}, 0, kStart);
  for (int i = 0; i < 20; ++i) EXPECT_LE(times.failed(kStart), minutes(10));
}

}  // namespace
}  // namespace ferry
