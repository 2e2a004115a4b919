#include "simdev/hazards.h"

#include <gtest/gtest.h>

#include <array>

namespace ferry {
namespace {

/// Two streams over one slab of 100 bytes.
struct Fixture {
  HazardDetector detector;
  int load = detector.add_actor("sim:0/load");
  int compute = detector.add_actor("sim:0/compute");
  std::array<std::byte, 100> slab{};

  void read(int actor, int begin, int end, const std::string& op = "read") {
    touch(actor, begin, end, false, op);
  }
  void write(int actor, int begin, int end, const std::string& op = "write") {
    touch(actor, begin, end, true, op);
  }
  void wait(int waiter, int for_actor) { detector.join(waiter, detector.clock(for_actor)); }
  std::size_t found() const { return detector.hazards().size(); }

 private:
  void touch(int actor, int begin, int end, bool write, const std::string& op) {
    const AccessedRange range{slab.data() + begin, {end - begin}, write};
    detector.access(actor, op, "task", {&range, 1});
  }
};

TEST(Hazards, AReadThatDoesNotWaitForTheWriteIsReportedWithBothSides) {
  Fixture f;
  f.detector.name_range(f.slab.data(), 50_B, "W.3@gpu0");
  f.write(f.load, 0, 50, "copy host to sim:0");
  f.read(f.compute, 0, 50, "aten::mm");

  ASSERT_EQ(f.found(), 1u);
  EXPECT_EQ(to_string(f.detector.hazards()[0]),
            "read after write on W.3@gpu0: aten::mm (task, sim:0/compute) does not wait for "
            "copy host to sim:0 (task, sim:0/load)");
}

TEST(Hazards, AnEventBetweenTheTwoOrdersThem) {
  Fixture f;
  f.write(f.load, 0, 50);
  f.wait(f.compute, f.load);
  f.read(f.compute, 0, 50);
  EXPECT_EQ(f.found(), 0u);
}

TEST(Hazards, AnEventRecordedBeforeTheWriteDoesNotHelp) {
  Fixture f;
  const HazardClock before = f.detector.clock(f.load);
  f.write(f.load, 0, 50);
  f.detector.join(f.compute, before);
  f.read(f.compute, 0, 50);
  EXPECT_EQ(f.found(), 1u);
}

TEST(Hazards, RefillingASlotThatIsStillReadIsAWriteAfterRead) {
  Fixture f;
  f.write(f.load, 0, 50);
  f.wait(f.compute, f.load);
  f.read(f.compute, 10, 20);
  f.write(f.load, 0, 50);
  ASSERT_EQ(f.found(), 1u);
  EXPECT_EQ(f.detector.hazards()[0].kind, Hazard::Kind::kWriteAfterRead);
}

TEST(Hazards, NeighbouringSlotsOfOneSlabDoNotDisturbEachOther) {
  Fixture f;
  f.write(f.load, 0, 50);
  f.write(f.compute, 50, 100);
  f.read(f.compute, 60, 70);
  EXPECT_EQ(f.found(), 0u);
}

TEST(Hazards, OneOverlappingByteIsEnough) {
  Fixture f;
  f.write(f.load, 0, 51);
  f.write(f.compute, 50, 100);
  ASSERT_EQ(f.found(), 1u);
  EXPECT_EQ(f.detector.hazards()[0].kind, Hazard::Kind::kWriteAfterWrite);
}

TEST(Hazards, ReadsDoNotDisturbEachOther) {
  Fixture f;
  f.read(f.load, 0, 50);
  f.read(f.compute, 0, 50);
  EXPECT_EQ(f.found(), 0u);
}

TEST(Hazards, AReadOverGapsIsRememberedEverywhere) {
  Fixture f;
  f.write(f.load, 10, 20);
  f.wait(f.compute, f.load);
  f.read(f.compute, 0, 40);
  for (const int at : {0, 15, 39}) f.write(f.load, at, at + 1);
  EXPECT_EQ(f.found(), 3u);
}

TEST(Hazards, OneAccessBlamesTheSameCounterpartOnce) {
  Fixture f;
  f.write(f.load, 0, 10, "a");
  f.write(f.load, 0, 100, "b");
  f.read(f.load, 20, 30);
  f.read(f.compute, 0, 100);
  EXPECT_EQ(f.found(), 1u);
}

TEST(Hazards, AStreamIsOrderedAfterWhatTheHostDidBeforeEnqueueing) {
  Fixture f;
  f.write(HazardDetector::kHost, 0, 50);
  f.read(f.load, 0, 50);
  EXPECT_EQ(f.found(), 0u);
}

TEST(Hazards, TheHostMustWaitForAStreamThatWrites) {
  Fixture f;
  f.write(f.load, 0, 50, "copy sim:0 to host");
  f.read(HazardDetector::kHost, 0, 50, "optimizer");
  EXPECT_EQ(f.found(), 1u);

  f.wait(HazardDetector::kHost, f.load);
  f.read(HazardDetector::kHost, 0, 50, "optimizer");
  EXPECT_EQ(f.found(), 1u);
}

// What the host waited for, it passes on to all that it enqueues later.
TEST(Hazards, AWaitOfTheHostOrdersOtherStreams) {
  Fixture f;
  f.write(f.load, 0, 50);
  f.wait(HazardDetector::kHost, f.load);
  f.read(f.compute, 0, 50);
  EXPECT_EQ(f.found(), 0u);
}

// A thread that enqueues what it was told to earlier must not profit from a wait that came between.
TEST(Hazards, AHostThreadOfItsOwnPassesOnOnlyWhatItHasSeen) {
  Fixture f;
  const int launches = f.detector.add_actor("launches");
  const std::array range{AccessedRange{f.slab.data(), 50_B, false}};
  f.write(f.load, 0, 50);
  f.wait(HazardDetector::kHost, f.load);
  f.detector.access(f.compute, "read", "task", range, launches);
  EXPECT_EQ(f.found(), 1u);

  f.wait(launches, HazardDetector::kHost);
  f.detector.access(f.compute, "read", "task", range, launches);
  EXPECT_EQ(f.found(), 1u);
}

TEST(Hazards, OrderIsPassedOnThroughAThirdStream) {
  Fixture f;
  const int third = f.detector.add_actor("sim:0/third");
  f.write(f.load, 0, 50);
  f.wait(third, f.load);
  f.wait(f.compute, third);
  f.read(f.compute, 0, 50);
  EXPECT_EQ(f.found(), 0u);
}

TEST(Hazards, BytesThatWentBackToTheSystemAreForgotten) {
  Fixture f;
  f.write(f.load, 0, 100);
  f.detector.forget(f.slab.data() + 20, 40_B);
  f.read(f.compute, 20, 60);
  EXPECT_EQ(f.found(), 0u);
  f.read(f.compute, 10, 20);
  f.read(f.compute, 60, 61);
  EXPECT_EQ(f.found(), 2u);
}

TEST(Hazards, ThereMayBeHundredsOfStreams) {
  Fixture f;
  int last = 0;
  for (int i = 0; i < 300; ++i) last = f.detector.add_actor("stream" + std::to_string(i));
  f.write(last, 0, 50);
  f.read(last - 1, 0, 50);
  EXPECT_EQ(f.found(), 1u);
  f.wait(last - 2, last);
  f.read(last - 2, 0, 50);
  EXPECT_EQ(f.found(), 1u);
}

TEST(Hazards, ANewNameTakesThePlaceOfTheOldOnesOfTheSameBytes) {
  Fixture f;
  f.detector.name_range(f.slab.data(), 60_B, "old");
  f.detector.name_range(f.slab.data() + 30, 60_B, "new");
  f.write(f.load, 0, 100);
  f.read(f.compute, 40, 50);
  ASSERT_EQ(f.found(), 1u);
  EXPECT_EQ(f.detector.hazards()[0].range, "new");
}

TEST(Hazards, ReportsAreLimitedInNumber) {
  Fixture f;
  for (std::size_t i = 0; i < HazardDetector::kMostReports; ++i) {
    f.write(f.load, 0, 1);
    f.write(f.compute, 0, 1);
  }
  EXPECT_EQ(f.found(), HazardDetector::kMostReports);
}

}  // namespace
}  // namespace ferry
