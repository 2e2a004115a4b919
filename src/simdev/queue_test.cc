#include "simdev/queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

namespace ferry {
namespace {

const auto kNothing = [] {};

void fail() { throw std::runtime_error("broken"); }

TEST(TaskQueue, TasksRunInOrder) {
  TaskQueue queue(kNothing);
  std::vector<int> seen;
  for (int i = 0; i < 1000; ++i) queue.push([&seen, i] { seen.push_back(i); });
  queue.wait();
  ASSERT_EQ(seen.size(), 1000u);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_TRUE(queue.idle());
}

TEST(TaskQueue, WhatIsQueuedStillRunsWhenTheQueueGoes) {
  int ran = 0;
  {
    TaskQueue queue(kNothing);
    for (int i = 0; i < 100; ++i) queue.push([&ran] { ++ran; });
  }
  EXPECT_EQ(ran, 100);
}

TEST(TaskQueue, TheFirstThingOnTheThreadIsOnStart) {
  std::thread::id started, ran;
  TaskQueue queue([&] { started = std::this_thread::get_id(); });
  queue.push([&] { ran = std::this_thread::get_id(); });
  queue.wait();
  EXPECT_EQ(started, ran);
  EXPECT_NE(started, std::this_thread::get_id());
}

TEST(TaskQueue, AnEventOrdersTwoStreams) {
  TaskQueue first(kNothing), second(kNothing);
  int value = 0;  // without an order between the streams, thread sanitizers would complain
  for (int i = 0; i < 200; ++i) {
    const auto ready = std::make_shared<StreamEvent>(), taken = std::make_shared<StreamEvent>();
    first.push([&value, i] { value = i; });
    first.record(ready, {});
    second.block(ready);
    second.push([&value, i] { EXPECT_EQ(value, i); });
    second.record(taken, {});
    first.block(taken);
  }
  second.wait();
  first.wait();
}

TEST(TaskQueue, WhatWaitsIsReadyWhenTheOtherStreamSaysItEnded) {
  using std::chrono::milliseconds;
  TaskQueue first(kNothing), second(kNothing);
  const auto event = std::make_shared<StreamEvent>();
  StreamTime ended, ready;
  first.push([&] {
    std::this_thread::sleep_for(milliseconds(20));
    ended = TaskQueue::current().ready() + milliseconds(5);  // and woke up late
    TaskQueue::current().end_at(ended);
  });
  first.record(event, {});
  second.block(event);
  second.push([&] { ready = TaskQueue::current().ready(); });
  second.wait();
  EXPECT_EQ(ready, ended);
  EXPECT_EQ(event->completed_at(), ended);
}

// As CUDA stops its caller, near a thousand launches.
TEST(TaskQueue, AFullQueueMakesWhoPushesWait) {
  std::promise<void> gate;
  TaskQueue queue(kNothing, 2);
  std::atomic<int> pushed = 0;
  queue.push([&] { gate.get_future().wait(); });
  std::thread host([&] {
    for (; pushed < 4; ++pushed) queue.push([] {});
  });
  while (queue.times_full() == 0) std::this_thread::yield();
  EXPECT_LE(pushed, 3);
  gate.set_value();
  host.join();
  queue.wait();
  EXPECT_EQ(pushed, 4);
}

TEST(TaskQueue, ATaskIsNotReadyBeforeItIsPushed) {
  TaskQueue queue(kNothing);
  StreamTime ready;
  queue.push(kNothing);
  queue.wait();
  const auto before = std::chrono::steady_clock::now();
  queue.push([&] { ready = TaskQueue::current().ready(); });
  queue.wait();
  EXPECT_GE(ready, before);
}

TEST(TaskQueue, AnEventThatWasNeverRecordedBlocksNobody) {
  TaskQueue queue(kNothing);
  queue.block(std::make_shared<StreamEvent>());
  queue.wait();
  EXPECT_TRUE(queue.idle());
}

TEST(TaskQueue, AWaiterWaitsForTheRecordingThatWasLatestWhenItAsked) {
  TaskQueue queue(kNothing), slow(kNothing);
  const auto event = std::make_shared<StreamEvent>(), gate = std::make_shared<StreamEvent>();
  queue.record(event, {});
  const auto first = event->latest().number;
  TaskQueue opener(kNothing);
  std::atomic<bool> open = false;
  opener.push([&open] {
    while (!open) std::this_thread::yield();
  });
  opener.record(gate, {});
  slow.block(gate);
  slow.record(event, {});
  event->wait(first);
  EXPECT_FALSE(event->completed(event->latest().number));
  open = true;
  event->wait(event->latest().number);
}

TEST(TaskQueue, AFailureIsThrownByTheNextWaitAndOnlyOnce) {
  TaskQueue queue(kNothing);
  bool later_ran = false;
  queue.push(fail);
  queue.push([&] { later_ran = true; });
  EXPECT_THROW(queue.wait(), std::runtime_error);
  EXPECT_TRUE(later_ran);
  EXPECT_NO_THROW(queue.wait());
}

TEST(TaskQueue, AFailureFollowsEventsToTheStreamsThatWait) {
  TaskQueue first(kNothing), second(kNothing);
  const auto event = std::make_shared<StreamEvent>();
  first.push(fail);
  first.record(event, {});
  second.block(event);
  EXPECT_THROW(second.wait(), std::runtime_error);
  EXPECT_NO_THROW(first.wait());
  EXPECT_EQ(take(event->wait(event->latest().number)), nullptr);
}

TEST(TaskQueue, AnEventBeforeTheFailureKnowsNothingOfIt) {
  TaskQueue queue(kNothing);
  const auto event = std::make_shared<StreamEvent>();
  queue.record(event, {});
  queue.push(fail);
  EXPECT_EQ(take(event->wait(event->latest().number)), nullptr);
  EXPECT_THROW(queue.wait(), std::runtime_error);
}

TEST(TaskQueue, AnErrorCanBeTakenWithoutWaiting) {
  TaskQueue queue(kNothing);
  const auto event = std::make_shared<StreamEvent>();
  queue.push(fail);
  queue.record(event, {});
  event->wait(event->latest().number);
  EXPECT_NE(queue.take_error(), nullptr);
  EXPECT_EQ(queue.take_error(), nullptr);
}

TEST(TaskQueue, SeveralThreadsMayPushAndWait) {
  TaskQueue queue(kNothing);
  int sum = 0;  // touched by the stream alone
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 250; ++i) {
        queue.push([&sum] { ++sum; });
        if (i % 50 == 0) queue.wait();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  queue.wait();
  EXPECT_EQ(sum, 1000);
}

TEST(TaskQueue, RestsOnceAfterEachTimeThatItHadNothingToDo) {
  std::atomic<int> rests = 0, begun = 0;
  {
    TaskQueue queue([&] { ++begun; }, 0, [&] { ++rests; });
    while (rests == 0) std::this_thread::yield();
    std::this_thread::sleep_for(3 * TaskQueue::kRest);
    EXPECT_EQ(rests, 1);
    queue.push([&] { EXPECT_EQ(rests, 1); });
    while (rests == 1) std::this_thread::yield();
  }
  EXPECT_EQ(rests, 2);
  EXPECT_EQ(begun, 1);
}

}  // namespace
}  // namespace ferry
