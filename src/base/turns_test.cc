#include "base/turns.h"

#include <gtest/gtest.h>

#include "base/ids.h"

namespace ferry {
namespace {

using QueueId = Id<struct QueueTag>;

TEST(Turns, OneIsServedAtATime) {
  Turns<QueueId> turns;
  EXPECT_EQ(turns.begin(), std::nullopt);
  turns.arrive(QueueId(1));
  EXPECT_EQ(turns.begin(), QueueId(1));
  turns.arrive(QueueId(0));
  EXPECT_EQ(turns.begin(), std::nullopt);
  turns.end();
  EXPECT_EQ(turns.begin(), QueueId(0));
}

TEST(Turns, WhoWasServedLastGoesOnWhileItHasMore) {
  Turns<QueueId> turns;
  turns.arrive(QueueId(2));
  turns.begin();
  turns.arrive(QueueId(0));
  turns.arrive(QueueId(1));
  turns.end();
  turns.arrive(QueueId(2));
  EXPECT_EQ(turns.begin(), QueueId(2));
  turns.end();
  EXPECT_EQ(turns.begin(), QueueId(0)) << "has waited longer than 1";
  turns.end();
  turns.arrive(QueueId(2));
  EXPECT_EQ(turns.begin(), QueueId(1)) << "2 comes back too late";
}

TEST(Turns, WhoWasServedLastComesFirstBehindAPause) {
  Turns<QueueId> turns;
  turns.arrive(QueueId(1));
  turns.begin();
  turns.end();
  EXPECT_EQ(turns.begin(), std::nullopt);
  turns.arrive(QueueId(0));
  turns.arrive(QueueId(1));
  EXPECT_EQ(turns.begin(), QueueId(1));
}

}  // namespace
}  // namespace ferry
