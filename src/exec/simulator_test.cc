#include "exec/simulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "base/fair_share.h"
#include "exec/shared_speeds.h"
#include "plan/sample_plans.h"

namespace ferry {
namespace {

Plan plan_of(const std::string& lines) {
  return parse_plan(
      "ferry-plan 1\nstrategy test\n"
      "step train micro_batches=1 micro_batch_size=1 sequence=1 precision=fp32\n"
      "place host kind=host budget=0 workspace=0\n" +
          lines,
      "test");
}

Micros end_of(const Plan& plan, const Simulation& simulation, const std::string& name,
              int step = 0) {
  for (const Span& span : simulation.timeline.spans) {
    if (span.run.step == step && plan.tasks[span.run.task].name == name) {
      return span.end;
    }
  }
  ADD_FAILURE() << name;
  return {};
}

TEST(Simulator, TwoCopiesUnderOneRootComplexTakeTwiceAsLong) {
  const Plan plan = plan_of(R"(
pool root capacity=1e9
resource a kind=copy place=host rate=1e9 draw=root:1e9
resource b kind=copy place=host rate=1e9 draw=root:1e9
task one kind=copy on=a bytes=1000000
task two kind=copy on=b bytes=1000000
)");
  const Simulation simulation = simulate(plan, 1);
  EXPECT_DOUBLE_EQ(end_of(plan, simulation, "one").count, 2000);
  EXPECT_DOUBLE_EQ(end_of(plan, simulation, "two").count, 2000);
  EXPECT_DOUBLE_EQ(simulation.first_step.count, 2000);
  EXPECT_DOUBLE_EQ(simulation.busiest.count, 2000);
  EXPECT_EQ(simulation.busiest_name, "root");
  EXPECT_DOUBLE_EQ(simulation.critical_path.count, 1000);
}

// 1 MB at half speed beside 0.5 MB, then the rest alone.
TEST(Simulator, ACopyIsFasterWhenItsNeighbourIsDone) {
  const Plan plan = plan_of(R"(
pool root capacity=1e9
resource a kind=copy place=host rate=1e9 draw=root:1e9
resource b kind=copy place=host rate=1e9 draw=root:1e9
task long kind=copy on=a bytes=1000000
task short kind=copy on=b bytes=500000
)");
  const Simulation simulation = simulate(plan, 1);
  EXPECT_DOUBLE_EQ(end_of(plan, simulation, "short").count, 1000);
  EXPECT_DOUBLE_EQ(end_of(plan, simulation, "long").count, 1500);
}

// Equal bytes per second: the narrow link gets all of its 250 MB/s, the wide one what is left.
TEST(Simulator, CopiesShareALinkByBytes) {
  const Plan plan = plan_of(R"(
pool root capacity=1e9
resource narrow kind=copy place=host rate=2.5e8 draw=root:2.5e8
resource wide kind=copy place=host rate=1e9 draw=root:1e9
task n kind=copy on=narrow bytes=250000
task w kind=copy on=wide bytes=750000
)");
  const Simulation simulation = simulate(plan, 1);
  EXPECT_DOUBLE_EQ(end_of(plan, simulation, "n").count, 1000);
  EXPECT_DOUBLE_EQ(end_of(plan, simulation, "w").count, 1000);
}

// Where copies go in turn, the short one waits for all of the long one.
TEST(Simulator, CopiesInTurnDoNotShareALink) {
  const Plan plan = plan_of(R"(
pool link capacity=1e9 in_turn
resource a kind=copy place=host rate=1e9 latency=10 draw=link:1e9
resource b kind=copy place=host rate=1e9 draw=link:1e9
task long kind=copy on=a bytes=1000000
task short kind=copy on=b bytes=500000
)");
  const Simulation simulation = simulate(plan, 1);
  EXPECT_DOUBLE_EQ(end_of(plan, simulation, "long").count, 1010);
  EXPECT_DOUBLE_EQ(end_of(plan, simulation, "short").count, 1510);
  EXPECT_DOUBLE_EQ(simulation.timeline.spans.back().start.count, 1010) << "it ran from then on";
}

// `a` goes on with its second copy although `b` has waited since the start. Behind it `a` has
// nothing that may begin: its third copy waits for the first of `b`.
TEST(Simulator, AQueueWhoseTurnItIsGoesOnWhileItHasCopiesThatMayBegin) {
  const Plan plan = plan_of(R"(
pool link capacity=1e9 in_turn
resource a kind=copy place=host rate=1e9 draw=link:1e9
resource b kind=copy place=host rate=1e9 draw=link:1e9
task a.1 kind=copy on=a bytes=100000
task a.2 kind=copy on=a bytes=100000
task b.1 kind=copy on=b bytes=100000
task b.2 kind=copy on=b bytes=100000
task a.3 kind=copy on=a bytes=100000 after=b.1
)");
  const Simulation simulation = simulate(plan, 1);
  EXPECT_DOUBLE_EQ(end_of(plan, simulation, "a.2").count, 200);
  EXPECT_DOUBLE_EQ(end_of(plan, simulation, "b.1").count, 300);
  EXPECT_DOUBLE_EQ(end_of(plan, simulation, "b.2").count, 400) << "b goes on, too";
  EXPECT_DOUBLE_EQ(end_of(plan, simulation, "a.3").count, 500);
}

// As docs/formats/plan.md has it: at time 0 by the lines of queues, behind `first` by the lines of
// tasks, and behind `second` that of the queue that was served last, a pause ago.
TEST(Simulator, CopiesThatBeginToWaitAtOneTimeHaveAnOrder) {
  const Plan plan = plan_of(R"(
pool link capacity=1e9 in_turn
resource a kind=copy place=host rate=1e9 draw=link:1e9
resource b kind=copy place=host rate=1e9 draw=link:1e9
resource c kind=copy place=host rate=1e9 draw=link:1e9
resource work kind=host place=host
task b.1 kind=copy on=b bytes=100000
task a.1 kind=copy on=a bytes=100000
task first kind=work on=work micros=1000
task c.2 kind=copy on=c bytes=100000 after=first
task a.2 kind=copy on=a bytes=100000 after=first
task second kind=work on=work micros=1000
task c.3 kind=copy on=c bytes=100000 after=second
task a.3 kind=copy on=a bytes=100000 after=second
)");
  const Simulation simulation = simulate(plan, 1);
  EXPECT_DOUBLE_EQ(end_of(plan, simulation, "a.1").count, 100);
  EXPECT_DOUBLE_EQ(end_of(plan, simulation, "b.1").count, 200);
  EXPECT_DOUBLE_EQ(end_of(plan, simulation, "c.2").count, 1100);
  EXPECT_DOUBLE_EQ(end_of(plan, simulation, "a.2").count, 1200);
  EXPECT_DOUBLE_EQ(end_of(plan, simulation, "a.3").count, 2100);
  EXPECT_DOUBLE_EQ(end_of(plan, simulation, "c.3").count, 2200);
}

// Behind an end come the queues of tasks that waited for it, then its own.
TEST(Simulator, AQueueWaitsBehindThoseThatWaitedForItsTask) {
  const Plan plan = plan_of(R"(
pool link capacity=1e9 in_turn
resource b kind=copy place=host rate=1e9 draw=link:1e9
resource c kind=copy place=host rate=1e9 draw=link:1e9
resource d kind=copy place=host rate=1e9 draw=link:1e9
task b kind=copy on=b bytes=100000
task c.1 kind=copy on=c bytes=100000 refreshes
task c.2 kind=copy on=c bytes=100000
task d kind=copy on=d bytes=100000 after=c.1
)");
  const Simulation simulation = simulate(plan, 1);
  EXPECT_DOUBLE_EQ(end_of(plan, simulation, "b").count, 100);
  EXPECT_DOUBLE_EQ(end_of(plan, simulation, "d").count, 200);
  EXPECT_DOUBLE_EQ(end_of(plan, simulation, "c.2").count, 300);
}

// Two devices, each with a link that serves in turn, below a root that they share.
TEST(Simulator, CopiesInTurnShareARootWithThoseOfOtherDevices) {
  const Plan plan = plan_of(R"(
pool one capacity=1e9 in_turn
pool two capacity=1e9 in_turn
pool root capacity=1e9
resource a kind=copy place=host rate=1e9 draw=one:1e9 draw=root:1e9
resource b kind=copy place=host rate=1e9 draw=one:1e9 draw=root:1e9
resource c kind=copy place=host rate=1e9 draw=two:1e9 draw=root:1e9
task a kind=copy on=a bytes=100000
task b kind=copy on=b bytes=100000
task c kind=copy on=c bytes=200000
)");
  const Simulation simulation = simulate(plan, 1);
  EXPECT_DOUBLE_EQ(end_of(plan, simulation, "a").count, 200);
  EXPECT_DOUBLE_EQ(end_of(plan, simulation, "b").count, 400);
  EXPECT_DOUBLE_EQ(end_of(plan, simulation, "c").count, 400);
}

TEST(Simulator, LatencyPassesBeforeTheLinkIsDrawnOn) {
  const Plan plan = plan_of(R"(
pool root capacity=1e9
resource a kind=copy place=host rate=1e9 latency=100 draw=root:1e9
resource b kind=copy place=host rate=1e9 draw=root:1e9
task late kind=copy on=a bytes=100000 micros=50
task soon kind=copy on=b bytes=150000
)");
  const Simulation simulation = simulate(plan, 1);
  EXPECT_DOUBLE_EQ(end_of(plan, simulation, "soon").count, 150);
  EXPECT_DOUBLE_EQ(end_of(plan, simulation, "late").count, 250);
}

// Compute on one core and an update on both: three cores' worth of demand gets two, so both run at
// 2/3 until the shorter is done.
TEST(Simulator, ComputeAndUpdatesShareTheCores) {
  const Plan plan = plan_of(R"(
pool cores capacity=2
place gpu0 kind=device budget=0 workspace=0
resource compute kind=compute place=gpu0 draw=cores:1
resource update kind=host place=host draw=cores:2
task F kind=forward on=compute micros=100
task U kind=update on=update micros=200
)");
  const Simulation simulation = simulate(plan, 1);
  EXPECT_NEAR(end_of(plan, simulation, "F").count, 150, 1e-9);
  EXPECT_NEAR(end_of(plan, simulation, "U").count, 250, 1e-9);
  EXPECT_EQ(simulation.busiest_name, "cores");
  EXPECT_DOUBLE_EQ(simulation.busiest.count, 250);
}

// 500 us of a link, and the task behind it, only where the step before was clipped.
TEST(Simulator, ACopyThatRefreshesTakesTimeOnlyBehindAClippedStep) {
  const Plan plan = plan_of(R"(
pool root capacity=1e9
place gpu0 kind=device budget=0 workspace=0
resource up kind=copy place=gpu0 rate=1e9 latency=100 draw=root:1e9
resource compute kind=compute place=gpu0
task W>gpu0 kind=copy on=up bytes=400000 refreshes
task F kind=forward on=compute micros=30 after=W>gpu0
)");
  const auto expect = [](const Plan& of, Micros copied, Bytes moved) {
    const Simulation simulation = simulate(of, 1);
    EXPECT_EQ(end_of(of, simulation, "W>gpu0"), copied);
    EXPECT_EQ(end_of(of, simulation, "F"), copied + Micros{30});
    EXPECT_EQ(simulation.critical_path, copied + Micros{30});
    const ResourceUse use = resource_use(of, simulation.timeline)[of.tasks[0].resource];
    EXPECT_EQ(use.busy, copied);
    EXPECT_EQ(use.bytes, moved);
  };
  expect(plan, Micros{0}, 0_B);
  expect(clipped(plan), Micros{500}, 400000_B);
}

TEST(Simulator, AChainTakesItsSum) {
  const Plan plan = plan_of(R"(
place gpu0 kind=device budget=70 workspace=7
resource compute kind=compute place=gpu0
resource load kind=host place=host
resource up kind=copy place=gpu0 rate=1e6 latency=2
task X kind=load on=load micros=0.1
task X>gpu0 kind=copy on=up bytes=3 after=X
task F kind=forward on=compute micros=0.7 after=X>gpu0
)");
  const Simulation simulation = simulate(plan, 1);
  EXPECT_DOUBLE_EQ(simulation.first_step.count, 0.1 + 5 + 0.7);
  EXPECT_EQ(simulation.first_step, simulation.critical_path);
  EXPECT_EQ(simulation.peak, (std::vector<Bytes>{0_B, 7_B}));
}

// Who draws on no pool that could be short is exact to the last bit, whatever the others do.
TEST(Simulator, UncontendedTasksEndExactlyOnTime) {
  const Plan plan = plan_of(R"(
pool wide capacity=3
pool narrow capacity=1
place gpu0 kind=device budget=0 workspace=0
resource free kind=host place=host draw=wide:1
resource a kind=host place=host draw=narrow:1
resource b kind=host place=host draw=narrow:1
task f1 kind=load on=free micros=0.1
task f2 kind=load on=free micros=0.2
task a1 kind=load on=a micros=0.05
task b1 kind=load on=b micros=0.07
)");
  const Simulation simulation = simulate(plan, 1);
  EXPECT_EQ(end_of(plan, simulation, "f1").count, 0.1);
  EXPECT_EQ(end_of(plan, simulation, "f2").count, 0.1 + 0.2);
}

// The next step's work starts while this step's tail runs: the steady step is shorter than the
// first.
TEST(Simulator, StepsOverlap) {
  const Plan plan = plan_of(R"(
resource a kind=host place=host
resource b kind=host place=host
task head kind=load on=a micros=40
task tail kind=load on=b micros=60 after=head
)");
  const Simulation simulation = simulate(plan, 3);
  EXPECT_DOUBLE_EQ(simulation.first_step.count, 100);
  EXPECT_DOUBLE_EQ(simulation.step.count, 60);
  EXPECT_DOUBLE_EQ(simulation.use[0].utilisation, 40.0 / 60);
  EXPECT_DOUBLE_EQ(simulation.use[1].utilisation, 1);
}

// A step's copy down shares the root with the next one's copy up: each takes 2 ms in place of 1,
// the last simulated one too. 1 ms of compute follows.
TEST(Simulator, WhatTheLastStepLeavesHasTheNextOneBesideIt) {
  const Plan plan = plan_of(R"(
pool root capacity=1e9
resource up kind=copy place=host rate=1e9 draw=root:1e9
resource down kind=copy place=host rate=1e9 draw=root:1e9
resource compute kind=host place=host
task rise kind=copy on=up bytes=1000000 after_previous=work
task work kind=load on=compute micros=1000 after=rise
task fall kind=copy on=down bytes=1000000 after=work
)");
  EXPECT_DOUBLE_EQ(simulate(plan, 1).step.count, 3000);  // one step has none behind it
  for (const int steps : {2, 3, 7}) {
    const Simulation simulation = simulate(plan, steps);
    EXPECT_DOUBLE_EQ(simulation.step.count, 3000) << steps;
    EXPECT_DOUBLE_EQ(simulation.first_step.count, 4000) << steps;
    EXPECT_DOUBLE_EQ(end_of(plan, simulation, "fall", steps - 1).count, 3000 * steps + 1000);
    EXPECT_EQ(simulation.timeline.spans.size(), plan.tasks.size() * steps);
  }
}

Plan random_plan(std::mt19937& random, bool chained) {
  const auto below = [&](unsigned n) { return static_cast<int>(random() % n); };
  Plan plan;
  plan.places.push_back({"host", PlaceKind::host, {}, {}});
  for (int p = 0; p < 3; ++p) plan.pools.push_back({"pool" + std::to_string(p), 1.0 + below(3)});
  for (int r = 0; r < 6; ++r) {
    Resource resource{"r" + std::to_string(r), ResourceKind::host, 0, 0, {}, {}};
    if (below(2) == 0) {
      resource.kind = ResourceKind::copy;
      resource.rate = 1.0 + below(4);
      resource.latency = {1.0 * below(3)};
    }
    for (int p = 0; p < 3; ++p) {
      if (below(2) == 0) resource.draws.push_back({p, 0.5 * (1 + below(5))});
    }
    plan.resources.push_back(resource);
  }
  const int tasks = 5 + below(40);
  for (int id = 0; id < tasks; ++id) {
    Task task;
    task.name = "t" + std::to_string(id);
    task.resource = below(6);
    const bool copies = plan.resources[task.resource].kind == ResourceKind::copy;
    task.kind = copies ? TaskKind::copy : TaskKind::load;
    if (copies) {
      task.bytes = {below(20)};
    } else {
      task.micros = {1e6 * below(10)};
    }
    for (int i = 0; i < 2 && id > 0; ++i) task.after.push_back(below(static_cast<unsigned>(id)));
    if (chained) {
      for (int earlier = 0; earlier < tasks; ++earlier) task.after_previous.push_back(earlier);
    } else if (below(3) == 0) {
      task.after_previous.push_back(below(static_cast<unsigned>(tasks)));
    }
    plan.tasks.push_back(std::move(task));
  }
  return plan;
}

// When a step begins only after the one before, its time is bounded by both.
TEST(Simulator, AStepTakesAtLeastItsBusiestPartAndItsLongestChain) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const Plan plan = random_plan(random, true);
    const Simulation simulation = simulate(plan, 3);
    constexpr double kRounding = 1 - 1e-9;
    EXPECT_GE(simulation.step.count, simulation.busiest.count * kRounding);
    EXPECT_GE(simulation.step.count, simulation.critical_path.count * kRounding);
    EXPECT_NEAR(simulation.step.count, simulation.first_step.count,
                1e-9 * simulation.first_step.count);
  }
}

TEST(Simulator, OverlappingStepsTakeAtLeastTheirWorkToo) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const Plan plan = random_plan(random, false);
    const Simulation simulation = simulate(plan, 3);
    ASSERT_EQ(simulation.timeline.spans.size(), plan.tasks.size() * 3);
    constexpr double kRounding = 1 - 1e-9;
    EXPECT_GE(simulation.timeline.spans.back().end.count, simulation.busiest.count * 3 * kRounding);
    EXPECT_GE(simulation.first_step.count, simulation.critical_path.count * kRounding);
    for (const Span& span : simulation.timeline.spans) {
      const Task& task = plan.tasks[span.run.task];
      EXPECT_GE((span.end - span.start).count,
                full_speed_time(plan, task).count * kRounding - 1e-3);
    }
  }
}

// The third step's time is told, whether or not the second is seen to leave what the first left.
TEST(Simulator, ASteadyStepIsSeenWhereThereIsOne) {
  int steady = 0, changing = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const Plan plan = random_plan(random, false);
    const Simulation simulation = simulate(plan, 3);
    Micros ends[3];
    for (const Span& span : simulation.timeline.spans) {
      for (int step = span.run.step; step < 3; ++step) ends[step] = std::max(ends[step], span.end);
    }
    const Micros second = ends[1] - ends[0], third = ends[2] - ends[1];
    const double rounding = 1e-9 * ends[2].count;
    EXPECT_NEAR(simulation.step.count, std::max(third, simulation.busiest).count, rounding);
    EXPECT_NEAR(StepSimulator().step_of(plan).count, simulation.step.count, rounding);
    ++(std::abs((third - second).count) <= rounding ? steady : changing);
  }
  EXPECT_GT(steady, 50);
  EXPECT_GT(changing, 10);
}

TEST(Simulator, EqualPlansGiveEqualTimelines) {
  SampleShape shape;
  shape.layers = 4;
  shape.devices = 3;
  const Plan plan = sample_mobius(shape);
  const Simulation once = simulate(plan, 3);
  const Simulation again = simulate(parse_plan(to_text(plan), "again"), 3);
  ASSERT_EQ(once.timeline.spans.size(), again.timeline.spans.size());
  for (std::size_t i = 0; i < once.timeline.spans.size(); ++i) {
    EXPECT_EQ(once.timeline.spans[i].run, again.timeline.spans[i].run);
    EXPECT_EQ(once.timeline.spans[i].start, again.timeline.spans[i].start);
    EXPECT_EQ(once.timeline.spans[i].end, again.timeline.spans[i].end);
  }
  EXPECT_GE(once.step, once.busiest);
}

TEST(Simulator, TasksThatEndTogetherAreReportedInPlanOrder) {
  const Plan plan = plan_of(R"(
resource b kind=host place=host
resource a kind=host place=host
task on_a kind=load on=a micros=5
task on_b kind=load on=b micros=5
)");
  const Simulation simulation = simulate(plan, 1);
  EXPECT_EQ(simulation.timeline.spans[0].run.task, 0);
  EXPECT_EQ(simulation.timeline.spans[1].run.task, 1);
}

TEST(Simulator, StepsAreTheSameWhateverWasSimulatedBefore) {
  std::mt19937 random(11);
  std::vector<Plan> plans;
  for (int i = 0; i < 40; ++i) plans.push_back(random_plan(random, i % 2 == 0));
  const StepSimulator simulator;
  for (int round = 0; round < 2; ++round) {
    for (const Plan& plan : plans) EXPECT_EQ(simulator.step_of(plan), simulate(plan).step);
  }
}

TEST(SharedSpeeds, AreOfPlansWithTheSamePoolsAndResources) {
  std::mt19937 random(12);
  const Plan plan = random_plan(random, false);
  const SharedSpeeds speeds(plan);
  EXPECT_TRUE(speeds.are_of(plan));
  Plan other = plan;
  other.tasks.clear();
  EXPECT_TRUE(speeds.are_of(other));
  other = plan;
  other.pools[PoolId(0)].capacity *= 2;
  EXPECT_FALSE(speeds.are_of(other));
  other = plan;
  other.resources.push_back(other.resources.back());
  EXPECT_FALSE(speeds.are_of(other));
  other = plan;
  for (Resource& resource : other.resources) resource.draws.clear();
  EXPECT_FALSE(speeds.are_of(other));
}

TEST(SharedSpeeds, EqualFairSpeedsOfWhatRuns) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const Plan plan = random_plan(random, false);
    double fastest = 0;
    for (const Resource& resource : plan.resources) fastest = std::max(fastest, resource.rate);
    std::vector<double> capacities;
    for (const Pool& pool : plan.pools) capacities.push_back(pool.capacity);
    SharedSpeeds shared(plan);
    IdVector<ResourceId, bool> runs(plan.resources.size());
    IdVector<ResourceId, double> speeds(plan.resources.size(), 1.0);
    for (int turn = 0; turn < 30; ++turn) {
      const ResourceId flipped(random() % runs.size());
      runs[flipped] = !runs[flipped];
      if (shared.shares(flipped)) {
        const auto changes = runs[flipped] ? shared.start(flipped) : shared.stop(flipped);
        for (const auto& [changed, speed] : changes) speeds[changed] = speed;
      }
      std::vector<Activity> activities;
      std::vector<ResourceId> running;
      for (const ResourceId r : runs.ids()) {
        if (!runs[r]) continue;
        const Resource& one = plan.resources[r];
        activities.push_back(
            {one.kind == ResourceKind::copy ? fastest / one.rate : 1.0, one.draws});
        running.push_back(r);
      }
      const auto fair = fair_speeds(activities, capacities);
      for (std::size_t i = 0; i < running.size(); ++i) {
        EXPECT_NEAR(speeds[running[i]], fair[i], 1e-12);
      }
    }
  }
}

}  // namespace
}  // namespace ferry
