#include "train/host_queue.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace ferry {
namespace {

const auto kNoClock = [] { return Micros{0}; };
const auto kNothing = [] {};

TEST(HostQueue, RunsInOrderAndReportsEachEnd) {
  Completions completions;
  std::vector<int> order;
  {
    HostQueue queue(completions, kNoClock);
    for (int i = 0; i < 50; ++i) queue.push({0, i}, [&order, i] { order.push_back(i); });
  }
  for (int i = 0; i < 50; ++i) {
    const auto done = completions.take(Micros{0});
    ASSERT_TRUE(done.has_value());
    EXPECT_EQ(done->run, (TaskRun{0, i}));
    EXPECT_EQ(order[i], i);
  }
  EXPECT_FALSE(completions.take(Micros{0}).has_value());
}

// An update that waits behind the clipping which finds that training has diverged must not run.
TEST(HostQueue, NothingRunsBehindAnError) {
  Completions completions;
  bool ran = false;
  {
    HostQueue queue(completions, kNoClock);
    queue.push({0, 0}, [] { throw std::runtime_error("broken"); });
    queue.push({0, 1}, [&ran] { ran = true; });
  }
  EXPECT_NE(completions.take(Micros{0})->error, nullptr);
  EXPECT_NE(completions.take(Micros{0})->error, nullptr);
  EXPECT_FALSE(ran);
}

TEST(Completions, TakingFromAnEmptyListGivesUpAfterItsPatience) {
  Completions completions;
  EXPECT_FALSE(completions.take(Micros{100}).has_value());
}

TEST(Completions, ServesSeveralQueuesAtOnce) {
  Completions completions;
  {
    HostQueue first(completions, kNoClock), second(completions, kNoClock);
    for (int i = 0; i < 100; ++i) {
      first.push({0, i}, kNothing);
      second.push({1, i}, kNothing);
    }
  }
  int next[2] = {0, 0};
  while (const auto done = completions.take(Micros{0})) {
    EXPECT_EQ(done->run.task, next[done->run.step]++);
  }
  EXPECT_EQ(next[0], 100);
  EXPECT_EQ(next[1], 100);
}

}  // namespace
}  // namespace ferry
