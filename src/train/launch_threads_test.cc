#include "train/launch_threads.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <future>
#include <random>
#include <stdexcept>
#include <string>

namespace ferry {
namespace {

const auto kNoClock = [] { return Micros{0}; };
const auto kNothing = [] {};
constexpr Micros kLong{60e6};

/// What the completion's launch threw; empty: nothing.
std::string error_of(const HostCompletion& completion) {
  if (!completion.error) return "";
  try {
    std::rethrow_exception(completion.error);
  } catch (const std::exception& error) {
    return error.what();
  }
}

// Tasks wait for some of those pushed before, wherever these are launched.
TEST(LaunchThreads, ALaunchComesBehindThoseItWaitsFor) {
  constexpr int kThreads = 4, kTasks = 400;
  for (unsigned seed = 0; seed < 10; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](int end) { return static_cast<int>(random() % unsigned(end)); };
    Completions completions;
    std::array<std::atomic<bool>, kTasks> launched{};
    std::array<std::atomic<int>, kThreads> last{};
    std::atomic<int> mistakes = 0;
    LaunchThreads threads(completions, kNoClock);
    for (int thread = 0; thread < kThreads; ++thread) threads.add(kNothing);
    for (int task = 0; task < kTasks; ++task) {
      std::vector<TaskRun> after;
      for (int i = below(4); i > 0 && task > 0; --i) after.push_back({0, below(task)});
      const auto thread = static_cast<std::size_t>(below(kThreads));
      threads.push(static_cast<int>(thread), {0, task}, after, [&, task, thread, after] {
        for (const TaskRun& run : after) mistakes += launched[run.task.index()] ? 0 : 1;
        mistakes += last[thread].exchange(task) > task ? 1 : 0;
        launched[static_cast<std::size_t>(task)] = true;
      });
    }
    for (int task = 0; task < kTasks; ++task) {
      const auto done = completions.take(kLong);
      ASSERT_TRUE(done.has_value());
      EXPECT_EQ(error_of(*done), "");
    }
    EXPECT_EQ(mistakes, 0) << "seed " << seed;
  }
}

TEST(LaunchThreads, ALaunchThatTakesLongHoldsUpOnlyThoseThatWaitForIt) {
  Completions completions;
  std::promise<void> gate;
  LaunchThreads threads(completions, kNoClock);
  threads.add(kNothing);
  threads.add(kNothing);
  threads.push(0, {0, 0}, {}, [&] { gate.get_future().wait(); });
  threads.push(1, {0, 1}, {}, kNothing);
  threads.push(1, {0, 2}, {{0, 0}}, kNothing);
  threads.push(1, {0, 3}, {}, kNothing);
  EXPECT_EQ(completions.take(kLong)->run, (TaskRun{0, 1}));
  EXPECT_FALSE(completions.take(Micros{20'000}).has_value());
  gate.set_value();
  int left = 3;
  while (left > 0 && completions.take(kLong)) --left;
  EXPECT_EQ(left, 0);
}

// The same task comes again in every step, and in the next evaluation even with the same step.
TEST(LaunchThreads, AnEarlierLaunchOfTheSameTaskDoesNotCount) {
  Completions completions;
  LaunchThreads threads(completions, kNoClock);
  threads.add(kNothing);
  threads.add(kNothing);
  threads.push(0, {0, 0}, {}, kNothing);
  ASSERT_TRUE(completions.take(kLong).has_value());

  std::promise<void> gate;
  threads.push(0, {0, 0}, {}, [&] { gate.get_future().wait(); });
  threads.push(1, {0, 1}, {{0, 0}}, kNothing);
  EXPECT_FALSE(completions.take(Micros{20'000}).has_value());
  gate.set_value();
  EXPECT_TRUE(completions.take(kLong).has_value());
  EXPECT_TRUE(completions.take(kLong).has_value());
}

// Also one that waits for the launch that failed, which never comes.
TEST(LaunchThreads, NothingIsLaunchedBehindAFailureOnAnyThread) {
  Completions completions;
  std::atomic<int> launched = 0;
  {
    std::promise<void> gate;
    LaunchThreads threads(completions, kNoClock);
    for (int thread = 0; thread < 3; ++thread) threads.add(kNothing);
    threads.push(0, {0, 0}, {}, [&] {
      gate.get_future().wait();
      throw std::runtime_error("broken");
    });
    threads.push(0, {0, 1}, {}, [&] { ++launched; });
    threads.push(1, {0, 2}, {{0, 0}}, [&] { ++launched; });
    threads.push(2, {0, 3}, {{0, 2}}, [&] { ++launched; });
    gate.set_value();
  }
  for (int task = 0; task < 4; ++task) {
    const auto done = completions.take(Micros{0});
    ASSERT_TRUE(done.has_value());
    EXPECT_EQ(error_of(*done), "broken") << done->run.task;
  }
  EXPECT_EQ(launched, 0);
}

TEST(LaunchThreads, EachStartsAsItIsTold) {
  Completions completions;
  std::atomic<int> started = 0;
  {
    LaunchThreads(completions, kNoClock).add([&] { ++started; });
  }
  EXPECT_EQ(started, 1);
}

}  // namespace
}  // namespace ferry
