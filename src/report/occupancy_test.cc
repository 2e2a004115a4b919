#include "report/occupancy.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "exec/simulator.h"
#include "plan/sample_plans.h"
#include "plan/verify.h"

namespace ferry {
namespace {

using Steps = std::vector<std::pair<double, std::int64_t>>;

Steps steps_of(const std::vector<Level>& levels) {
  Steps steps;
  for (const Level& level : levels) steps.emplace_back(level.at.count, level.bytes.count);
  return steps;
}

const std::vector<Level>& passing(const PlaceLevels& levels, ValueKind kind) {
  return levels.passing[static_cast<std::size_t>(kind)];
}

const std::vector<Level>& at_home(const PlaceLevels& levels, ValueKind kind) {
  return levels.at_home[static_cast<std::size_t>(kind)];
}

// A weight comes up for forward, makes room for an activation, and comes up again for backward.
Plan weight_that_comes_twice() {
  return parse_plan(R"(ferry-plan 1
strategy test
step train micro_batches=1 micro_batch_size=1 sequence=1 precision=fp32
block 0 kind=mlp stage=0
block 1 kind=mlp stage=0
place host kind=host budget=1000 workspace=0
place gpu0 kind=device budget=1000 workspace=50
resource up kind=copy place=gpu0 rate=1e7
resource compute kind=compute place=gpu0
value W.0 bytes=100
value W.1 bytes=70
value A.1.0 bytes=30
value G.0 bytes=40
instance W.0@host offset=0 home
instance W.1@host offset=100 home
instance W.0@gpu0 offset=0
instance W.1@gpu0 offset=20
instance A.1.0@gpu0 offset=100
instance G.0@gpu0 offset=200
task W.0>gpu0 kind=copy on=up bytes=100 reads=W.0@host writes=W.0@gpu0 after_previous=B.b
task F.0 kind=forward on=compute micros=5 workspace=50 block=0 reads=W.0@gpu0 writes=A.1.0@gpu0 after=W.0>gpu0
task W.1>gpu0 kind=copy on=up bytes=70 reads=W.1@host writes=W.1@gpu0 after=F.0
task F.1 kind=forward on=compute micros=5 block=1 reads=W.1@gpu0,A.1.0@gpu0 after=W.1>gpu0
task W.0>gpu0#2 kind=copy on=up bytes=100 reads=W.0@host writes=W.0@gpu0 after=F.1
task B.a kind=backward on=compute micros=10 block=0 reads=W.0@gpu0 writes=G.0@gpu0 after=W.0>gpu0#2
task B.b kind=backward on=compute micros=10 block=0 reads=W.0@gpu0,G.0@gpu0 writes=G.0@gpu0 after=B.a
)",
                    "test");
}

TEST(Occupancy, ASlotIsHeldFromItsWriterToItsLastReader) {
  const Plan plan = weight_that_comes_twice();
  const auto levels = bytes_over_time(plan, simulate(plan, 1).timeline);
  // 10 us up, F.0 to 15, 7 us up, F.1 from 22 to 27, 10 us up, B from 37 to 57.
  const PlaceLevels& gpu = levels[1];
  EXPECT_EQ(steps_of(passing(gpu, ValueKind::weight)),
            (Steps{{0, 100}, {15, 70}, {27, 100}, {57, 0}}));
  EXPECT_EQ(steps_of(passing(gpu, ValueKind::activation)), (Steps{{10, 30}, {27, 0}}));
  EXPECT_EQ(steps_of(gpu.workspace), (Steps{{10, 50}, {15, 0}}));
  EXPECT_EQ(steps_of(gpu.total), (Steps{{0, 100}, {10, 180}, {15, 100}, {37, 140}, {57, 0}}));
  EXPECT_EQ(highest(gpu.total), 180_B);
}

TEST(Occupancy, HomesAreHeldAllTheTime) {
  const Plan plan = weight_that_comes_twice();
  const auto levels = bytes_over_time(plan, simulate(plan, 2).timeline);
  EXPECT_EQ(steps_of(levels[0].total), (Steps{{0, 170}, {114, 0}}));
  EXPECT_EQ(steps_of(at_home(levels[0], ValueKind::weight)), (Steps{{0, 170}, {114, 0}}));
  EXPECT_TRUE(passing(levels[0], ValueKind::weight).empty());
}

TEST(Occupancy, ASumInASlotOfItsOwnRestsThereWhileItIsNeeded) {
  const Plan plan = weight_that_comes_twice();
  const auto levels = bytes_over_time(plan, simulate(plan, 1).timeline);
  EXPECT_EQ(steps_of(at_home(levels[1], ValueKind::gradient)), (Steps{{37, 40}, {57, 0}}));
  EXPECT_TRUE(passing(levels[1], ValueKind::gradient).empty());
  EXPECT_TRUE(at_home(levels[1], ValueKind::weight).empty());
}

TEST(Occupancy, EveryWriteAnewIsALifeOfItsOwn) {
  const Plan plan = weight_that_comes_twice();
  const auto found = lives(plan, simulate(plan, 2).timeline);
  int weights = 0, gradients = 0;
  for (const Life& life : found) {
    const Instance& instance = plan.instances[life.instance];
    const ValueKind kind = plan.values[instance.value].kind;
    weights += instance.place == 1 && kind == ValueKind::weight;
    gradients += kind == ValueKind::gradient;
  }
  EXPECT_EQ(weights, 6);
  EXPECT_EQ(gradients, 2);
}

TEST(Occupancy, NothingThatRanHoldsNothing) {
  const auto levels = bytes_over_time(weight_that_comes_twice(), {});
  ASSERT_EQ(levels.size(), 2U);
  EXPECT_TRUE(levels[0].total.empty());
}

// Two lives that share a byte never share a moment, so a place never holds more than its peak.
TEST(Occupancy, LivesOfVerifiedPlansNeverCollide) {
  for (int devices = 1; devices <= 3; ++devices) {
    SampleShape shape;
    shape.layers = 5;
    shape.devices = devices;
    shape.micro_batches = 3;
    shape.tied = devices == 2;
    for (const Plan& plan : {sample_mobius(shape), sample_resident(shape)}) {
      ASSERT_FALSE(verify(plan).has_value());
      const Simulation simulation = simulate(plan, 3);
      const auto found = lives(plan, simulation.timeline);
      const auto slot = [&](const Life& life) {
        const Instance& one = plan.instances[life.instance];
        const Bytes size = plan.values[one.value].bytes;
        return std::tuple(one.place, one.offset, one.offset + size);
      };
      for (std::size_t i = 0; i < found.size(); ++i) {
        const auto [place, begin, end] = slot(found[i]);
        for (std::size_t j = i + 1; j < found.size(); ++j) {
          const auto [other_place, other_begin, other_end] = slot(found[j]);
          if (other_place != place || found[j].from >= found[i].to) break;
          EXPECT_TRUE(other_end <= begin || end <= other_begin || found[j].to <= found[i].from)
              << instance_name(plan, found[i].instance) << " and "
              << instance_name(plan, found[j].instance);
        }
      }
      const auto levels = bytes_over_time(plan, simulation.timeline);
      for (std::size_t p = 0; p < levels.size(); ++p) {
        EXPECT_LE(highest(levels[p].total), simulation.peak[p]) << plan.places[p].name;
        EXPECT_EQ(levels[p].total.empty() ? 0_B : levels[p].total.back().bytes, 0_B);
      }
    }
  }
}

}  // namespace
}  // namespace ferry
