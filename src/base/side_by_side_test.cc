#include "base/side_by_side.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace ferry {
namespace {

using Works = std::vector<std::function<void()>>;

TEST(SideBySide, EveryWorkRunsOnceAlsoThoseOfWorks) {
  constexpr int kOuter = 7, kInner = 50;
  std::vector<int> runs(kOuter * kInner);
  Works outer;
  for (int o = 0; o < kOuter; ++o) {
    outer.emplace_back([&runs, o] {
      Works inner;
      for (int i = 0; i < kInner; ++i)
        inner.emplace_back([&runs, o, i] { ++runs[o * kInner + i]; });
      side_by_side(inner);
    });
  }
  side_by_side(outer);
  EXPECT_EQ(runs, std::vector<int>(kOuter * kInner, 1));
  side_by_side({});
}

TEST(SideBySide, NoMoreWorksRunAtOnceThanThereAreCores) {
  std::atomic<int> running = 0, most = 0;
  const Works works(100, [&] {
    const int now = ++running;
    for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
    }
    --running;
  });
  side_by_side(works);
  EXPECT_GE(most, 1);
  EXPECT_LE(most, std::thread::hardware_concurrency());
}

TEST(SideBySide, ItTellsWhichWorkBegins) {
  std::vector<std::size_t> begun, done;
  const Works works(20, [] {});
  side_by_side(works, [&](std::size_t work, std::size_t finished) {
    begun.push_back(work);
    done.push_back(finished);
  });
  ASSERT_EQ(begun.size(), works.size());
  for (std::size_t i = 0; i < begun.size(); ++i) {
    EXPECT_EQ(begun[i], i);
    EXPECT_LE(done[i], i) << "of those that began before";
    EXPECT_GE(done[i], i > 0 ? done[i - 1] : 0);
  }
}

TEST(SideBySide, OnBusyCoresAllRunsOnTheCallingThread) {
  const bool was_idle = has_idle_cores();
  const BusyCores busy;
  EXPECT_FALSE(has_idle_cores());
  std::set<std::thread::id> threads;
  side_by_side(Works(10, [&] { threads.insert(std::this_thread::get_id()); }));
  EXPECT_EQ(threads, std::set{std::this_thread::get_id()});
  { const BusyCores none_left; }
  EXPECT_EQ(was_idle, std::thread::hardware_concurrency() > 1);
}

// The last report, and how many there were.
class Heard final : public PhaseListener {
 public:
  void progress(const Progress& progress) override {
    parts.insert(progress.part);
    last = progress;
    ++reports;
  }
  std::set<std::string> parts;
  Progress last;
  int reports = 0;
};

TEST(SideBySide, AListenerHearsWhatBeginsAndThatAllIsDone) {
  std::atomic<int> done = 0;
  const std::vector<NamedWork> works = {{"a", [&] { ++done; }}, {"b", [&] { ++done; }}};
  Heard heard;
  side_by_side(works, heard, "planning", "plans");
  EXPECT_EQ(done, 2);
  EXPECT_EQ(heard.parts, (std::set<std::string>{"a", "b", ""}));
  EXPECT_EQ(heard.reports, 3);
  EXPECT_EQ(heard.last.what, "planning");
  EXPECT_EQ(heard.last.unit, "plans");
  EXPECT_EQ(heard.last.done, 2);
  EXPECT_EQ(heard.last.total, 2);
}

TEST(SideBySide, TheFirstFailureInOrderIsThrownWhenAllAreDone) {
  std::atomic<int> done = 0;
  const Works works = {[&] { ++done; }, [] { throw std::runtime_error("second"); },
                       [] { throw std::runtime_error("third"); }, [&] { ++done; }};
  for (int round = 0; round < 20; ++round) {
    done = 0;
    try {
      side_by_side(works);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "second");
    }
    EXPECT_EQ(done, 2);
  }
}

}  // namespace
}  // namespace ferry
