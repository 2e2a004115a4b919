#include "report/report.h"

#include <gtest/gtest.h>

#include <string>

#include "plan/sample_plans.h"

namespace ferry {
namespace {

Plan plan_of(const std::string& lines) {
  return parse_plan(
      "ferry-plan 1\nstrategy test\n"
      "step train micro_batches=1 micro_batch_size=1 sequence=1 precision=fp32\n"
      "place host kind=host budget=0 workspace=0\n"
      "place gpu0 kind=device budget=0 workspace=0\n"
      "place gpu1 kind=device budget=0 workspace=0\n" +
          lines,
      "test");
}

// Two stages, one after the other and back: each device works half of the time, and the first one
// waits between its two tasks. GPipe with one micro-batch: (p - 1) / (m + p - 1) = 1/2.
TEST(Report, AStageIdlesWhileTheOtherWorks) {
  const Plan plan = plan_of(R"(
resource a kind=compute place=gpu0
resource b kind=compute place=gpu1
task F.0 kind=forward on=a micros=10
task F.1 kind=forward on=b micros=10 after=F.0
task B.1 kind=backward on=b micros=20 after=F.1
task B.0 kind=backward on=a micros=20 after=B.1
)");
  const Simulation simulation = simulate(plan, 1);
  const std::vector<Bubble> found = bubbles(plan, simulation);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_DOUBLE_EQ(found[0].of_step, 0.5);
  EXPECT_DOUBLE_EQ(found[0].of_span, 0.5);
  EXPECT_DOUBLE_EQ(found[1].of_step, 0.5);
  EXPECT_DOUBLE_EQ(found[1].of_span, 0);
  EXPECT_DOUBLE_EQ(mean_bubble(found), 0.5);
}

TEST(Report, AComputeQueueWithoutTasksIsAllBubble) {
  const Plan plan = plan_of(R"(
resource a kind=compute place=gpu0
resource load kind=host place=host
resource b kind=compute place=gpu1
task F kind=forward on=a micros=10
task X kind=load on=load micros=5
)");
  const std::vector<Bubble> found = bubbles(plan, simulate(plan, 3));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[1].resource, 2);
  EXPECT_DOUBLE_EQ(found[0].of_step, 0);
  EXPECT_DOUBLE_EQ(found[1].of_step, 1);
  EXPECT_DOUBLE_EQ(mean_bubble(found), 0.5);
}

// Equally deep pipelines of m micro-batches idle (p - 1) / (m + p - 1) of the time (GPipe).
TEST(Report, GPipesBubbleIsItsClosedForm) {
  constexpr int kStages = 4, kMicroBatches = 6;
  Plan plan;
  plan.places.push_back({"gpu", PlaceKind::device, {}, {}});
  for (int s = 0; s < kStages; ++s) {
    plan.resources.push_back({"compute", ResourceKind::compute, PlaceId(0), 0, {}, {}});
  }
  std::vector<TaskId> forward_end;
  for (int pass = 0; pass < 2; ++pass) {  // forward, then backward from the last stage
    for (int m = 0; m < kMicroBatches; ++m) {
      for (int s = 0; s < kStages; ++s) {
        Task task;
        task.name = (pass == 0 ? "F." : "B.") + std::to_string(plan.tasks.size());
        task.kind = pass == 0 ? TaskKind::forward : TaskKind::backward;
        task.resource = ResourceId(pass == 0 ? s : kStages - 1 - s);
        task.micros = {pass == 0 ? 1.0 : 2.0};
        const TaskId id = plan.tasks.end_id();
        if (s > 0) task.after.push_back(TaskId(id.number() - 1));
        if (pass == 1 && s == 0) task.after.push_back(forward_end.back());
        if (pass == 0 && s == kStages - 1) forward_end.push_back(id);
        plan.tasks.push_back(task);
      }
    }
  }
  EXPECT_NEAR(mean_bubble(bubbles(plan, simulate(plan, 1))),
              (kStages - 1.0) / (kMicroBatches + kStages - 1.0), 1e-12);
}

// 3 MB at 1 GB/s, 1 MB at 4 GB/s of which 50 us pass before it draws on the link, in a step of 3
// ms.
TEST(Report, APoolIsUsedByWhatItsTasksDraw) {
  const Plan plan = plan_of(R"(
pool root capacity=5e9
pool cores capacity=4
resource slow kind=copy place=gpu0 rate=1e9 draw=root:1e9
resource fast kind=copy place=gpu1 rate=4e9 latency=50 draw=root:4e9
resource work kind=compute place=gpu0 draw=cores:2
task one kind=copy on=slow bytes=3000000
task two kind=copy on=fast bytes=1000000
task F kind=forward on=work micros=1500
)");
  const std::vector<PoolUse> uses = pool_use(plan, simulate(plan, 1));
  ASSERT_EQ(uses.size(), 2U);
  EXPECT_EQ(uses[0].bytes, 4000000_B);
  EXPECT_NEAR(uses[0].utilisation, 4e6 / (5e9 * 3e-3), 1e-12);
  EXPECT_EQ(uses[1].bytes, 0_B);
  EXPECT_NEAR(uses[1].utilisation, 2 * 1.5e-3 / (4 * 3e-3), 1e-12);
}

constexpr const char* kCopies = R"(
pool root capacity=1e10
resource a kind=copy place=gpu0 rate=1e10 draw=root:1e10
resource b kind=copy place=gpu1 rate=1e10 draw=root:1e10
resource late kind=copy place=gpu1 rate=2e9 latency=1000
task both_a kind=copy on=a bytes=1000000
task both_b kind=copy on=b bytes=1000000
task alone kind=copy on=a bytes=6000000 after=both_b
task waits kind=copy on=late bytes=2000000
)";

// Two share the root complex, one has it alone, and a latency halves the fourth's 2 GB/s.
TEST(Report, TheBandwidthCurveCountsBytesBySpeed) {
  const Plan plan = plan_of(kCopies);
  const BandwidthCdf cdf = bandwidth_cdf(plan, simulate(plan, 3));
  ASSERT_EQ(cdf.points.size(), 3U);
  EXPECT_DOUBLE_EQ(cdf.points[0].bytes_per_second, 1e9);
  EXPECT_DOUBLE_EQ(cdf.points[1].bytes_per_second, 5e9);
  EXPECT_DOUBLE_EQ(cdf.points[2].bytes_per_second, 1e10);
  EXPECT_EQ(cdf.points[0].bytes, 2000000_B);
  EXPECT_EQ(cdf.points[1].bytes, 4000000_B);
  EXPECT_EQ(cdf.total(), 10000000_B);

  EXPECT_EQ(cdf.bytes_above(0), 10000000_B);
  EXPECT_EQ(cdf.bytes_above(0.99e9), 10000000_B);
  EXPECT_EQ(cdf.bytes_above(1e9), 8000000_B);  // strictly above
  EXPECT_EQ(cdf.bytes_above(7e9), 6000000_B);
  EXPECT_EQ(cdf.bytes_above(1e10), 0_B);
  EXPECT_DOUBLE_EQ(cdf.share_above(5e9), 0.6);
  EXPECT_DOUBLE_EQ(cdf.quantile(0.2), 1e9);
  EXPECT_DOUBLE_EQ(cdf.quantile(0.21), 5e9);
  EXPECT_DOUBLE_EQ(cdf.quantile(1), 1e10);
}

// 1 MB at 1 GB/s beside 2 ms of compute, only where the step before was clipped.
TEST(Report, WhatARefreshDoesNotCopyIsCountedNowhere) {
  const Plan plan = plan_of(R"(
pool root capacity=1e9
resource up kind=copy place=gpu0 rate=1e9 draw=root:1e9
resource a kind=compute place=gpu0
task W>gpu0 kind=copy on=up bytes=1000000 refreshes
task F kind=forward on=a micros=2000
)");
  const auto expect = [](const Plan& of, Bytes moved, double utilisation) {
    const Simulation simulation = simulate(of, 1);
    const PoolUse use = pool_use(of, simulation)[PoolId(0)];
    EXPECT_EQ(use.bytes, moved);
    EXPECT_DOUBLE_EQ(use.utilisation, utilisation);
    EXPECT_EQ(bandwidth_cdf(of, simulation).total(), moved);
  };
  expect(plan, 0_B, 0);
  expect(clipped(plan), 1000000_B, 0.5);
}

TEST(Report, NothingMovedIsAnEmptyCurve) {
  const Plan plan = plan_of("resource a kind=compute place=gpu0\ntask F kind=forward on=a\n");
  const BandwidthCdf cdf = bandwidth_cdf(plan, simulate(plan, 1));
  EXPECT_TRUE(cdf.points.empty());
  EXPECT_EQ(cdf.share_above(0), 0);
  EXPECT_EQ(cdf.bytes_above(1e9), 0_B);
  EXPECT_EQ(cdf.quantile(0.5), 0);
}

TEST(Report, AThinnedCurveKeepsItsEndAndItsOrder) {
  BandwidthCdf cdf;
  for (int i = 1; i <= 1000; ++i) cdf.points.push_back({1e6 * i, Bytes{i} * 10});
  const auto few = thinned(cdf, 10);
  ASSERT_EQ(few.size(), 10U);
  for (std::size_t i = 0; i < few.size(); ++i) {
    EXPECT_EQ(few[i].bytes.count, 1000 * static_cast<std::int64_t>(i + 1));
  }
  EXPECT_EQ(thinned(cdf, 1000).size(), 1000U);
  EXPECT_EQ(thinned(cdf, 1).back().bytes, cdf.total());
}

// A state read from the drive, updated on the host, and written back; weights at rest on the host.
TEST(Report, ADriveLivesAsLongAsItsWritesAllow) {
  const Plan plan = parse_plan(R"(ferry-plan 1
strategy test
step train micro_batches=1 micro_batch_size=1 sequence=1 precision=fp32
block 0 kind=mlp stage=0
place host kind=host budget=1000 workspace=0
place ssd0 kind=drive budget=1000 workspace=0
place ssd1 kind=drive budget=1000 workspace=0
resource read kind=copy place=ssd0 rate=1e9
resource write kind=copy place=ssd0 rate=1e9
resource update kind=host place=host
value S.0 bytes=300
value W.0 bytes=100
value G.0 bytes=100
instance S.0@ssd0 offset=0 home
instance S.0@host offset=0
instance W.0@host offset=300 home
instance G.0@host offset=400 home
task S.0>host kind=copy on=read bytes=300 reads=S.0@ssd0 writes=S.0@host
task U.0 kind=update on=update micros=1 block=0 reads=W.0@host,S.0@host,G.0@host writes=W.0@host,S.0@host after=S.0>host
task S.0>ssd0 kind=copy on=write bytes=300 reads=S.0@host writes=S.0@ssd0 after=U.0
)",
                               "test");
  const std::vector<DriveUse> uses = drive_use(plan);
  ASSERT_EQ(uses.size(), 2U);
  EXPECT_EQ(plan.places[uses[0].place].name, "ssd0");
  EXPECT_EQ(uses[0].read, 4096_B);
  EXPECT_EQ(uses[0].written, 4096_B);
  EXPECT_EQ(uses[1].written, 0_B);
  EXPECT_EQ(drive_life_steps(uses[0], 40960_B), 10.0);
  EXPECT_EQ(drive_life_steps(uses[0], 40959_B), 9.0);
  EXPECT_EQ(drive_life_steps(uses[0], std::nullopt), std::nullopt);
  EXPECT_EQ(drive_life_steps(uses[1], 3000_B), std::nullopt);
}

TEST(Report, APlanWithoutValuesMovesWhatItsCopiesMove) {
  const Plan plan = parse_plan(R"(ferry-plan 1
strategy test
step train micro_batches=1 micro_batch_size=1 sequence=1 precision=fp32 timing_only
place host kind=host budget=0 workspace=0
place drives kind=drive budget=0 workspace=0
resource weights_read kind=copy place=drives rate=1e9
resource states_read kind=copy place=drives rate=1e9
resource states_write kind=copy place=drives rate=1e9
resource update kind=host place=host
task read.W kind=copy on=weights_read bytes=100
task read.S kind=copy on=states_read bytes=300
task U kind=update on=update micros=1 after=read.S
task write.S kind=copy on=states_write bytes=350 after=U
)",
                               "test");
  const std::vector<DriveUse> uses = drive_use(plan);
  ASSERT_EQ(uses.size(), 1U);
  EXPECT_EQ(uses[0].read, 400_B);
  EXPECT_EQ(uses[0].written, 350_B);
}

TEST(Report, SharesOfAWholePlanStayWithinOne) {
  SampleShape shape;
  shape.layers = 6;
  shape.devices = 3;
  const Plan plan = sample_mobius(shape);
  const Simulation simulation = simulate(plan, 3);
  Bytes moved;
  for (const Task& task : plan.tasks) moved += task.bytes;
  EXPECT_EQ(bandwidth_cdf(plan, simulation).total(), moved);
  for (const PoolUse& use : pool_use(plan, simulation)) EXPECT_LE(use.utilisation, 1 + 1e-9);
  for (const Bubble& bubble : bubbles(plan, simulation)) {
    EXPECT_GE(bubble.of_step, 0);
    EXPECT_LE(bubble.of_step, 1);
  }
}

}  // namespace
}  // namespace ferry
