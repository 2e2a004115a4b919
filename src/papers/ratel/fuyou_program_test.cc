#include "papers/ratel/fuyou_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>

#include "exec/simulator.h"
#include "papers/ratel/ratel_servers.h"
#include "papers/ratel/tiered_bounds.h"
#include "plan/verify.h"

namespace ferry {
namespace {

FuyouProblem question_13b(int batch) {
  FuyouProblem question;
  question.model = {.parameters = 13e9, .layers = 40, .hidden = 5120, .tokens = 1024.0 * batch};
  question.constants = ratel_server_4090(12);
  return question;
}

// Bytes of the copies on a queue whose names start so.
double gigabytes(const Plan& plan, const std::string& queue, const std::string& prefix) {
  std::int64_t bytes = 0;
  for (const Task& task : plan.tasks) {
    if (plan.resources[static_cast<std::size_t>(task.resource)].name != queue) continue;
    if (task.name.rfind(prefix, 0) == 0) bytes += task.bytes.count;
  }
  return static_cast<double>(bytes) / 1e9;
}

TaskId find(const Plan& plan, const std::string& name) {
  for (std::size_t t = 0; t < plan.tasks.size(); ++t) {
    if (plan.tasks[t].name == name) return static_cast<TaskId>(t);
  }
  ADD_FAILURE() << "no task " << name;
  return 0;
}

const Task& task(const Plan& plan, const std::string& name) {
  return plan.tasks[static_cast<std::size_t>(find(plan, name))];
}

bool waits(const FewIds<TaskId>& after, TaskId earlier) {
  return std::find(after.begin(), after.end(), earlier) != after.end();
}

TEST(FuyouProgram, StepMovesThirtyBytesPerParameter) {
  for (const HandlerOrder order :
       {HandlerOrder::serial, HandlerOrder::naive, HandlerOrder::delayed}) {
    FuyouProblem question = question_13b(32);
    question.order = order;
    const Plan plan = fuyou_program(question);
    EXPECT_DOUBLE_EQ(gigabytes(plan, "weights_read", "read.W.F"), 26);  // forward reads
    const double backward_reads =
        gigabytes(plan, "weights_read", "read.W.B") + gigabytes(plan, "states_read", "read.S");
    EXPECT_DOUBLE_EQ(backward_reads, 182);
    EXPECT_DOUBLE_EQ(gigabytes(plan, "states_write", "write."), 182);
    EXPECT_DOUBLE_EQ(gigabytes(plan, "gpu0.up", "up.W"), 52);
    EXPECT_DOUBLE_EQ(gigabytes(plan, "gpu0.down", "down.G"), 26);
    EXPECT_EQ(gigabytes(plan, "activations_write", ""), 0);
  }
}

TEST(FuyouProgram, ActivationsBeyondDramGoToTheDrives) {
  FuyouProblem question = question_13b(32);
  question.units = 17;
  question.model.host_available = 100e9;
  const Plan plan = fuyou_program(question);
  const double swapped = 17 * interblock_bytes(question.model) / 1e9;
  EXPECT_NEAR(gigabytes(plan, "gpu0.down", "down.A"), swapped, 1e-6);
  EXPECT_NEAR(gigabytes(plan, "gpu0.up", "up.A"), swapped, 1e-6);
  EXPECT_NEAR(gigabytes(plan, "activations_write", ""), swapped - 100, 1e-6);
  EXPECT_NEAR(gigabytes(plan, "activations_read", ""), swapped - 100, 1e-6);
}

TEST(FuyouProgram, EveryOrderIsAPlan) {
  for (const HandlerOrder order :
       {HandlerOrder::serial, HandlerOrder::naive, HandlerOrder::delayed}) {
    FuyouProblem question = question_13b(8);
    question.order = order;
    question.model.host_available = 1e9;
    const auto violation = verify(fuyou_program(question));
    EXPECT_FALSE(violation.has_value()) << violation->message;
  }
}

// Groups of 7 of the 120 blocks hold 0.76e9 parameters; the last group is short.
TEST(FuyouProgram, DelayedWritesFollowTheNextGroupsRead) {
  const Plan plan = fuyou_program(question_13b(8));
  EXPECT_EQ(task(plan, "write.S.119").bytes.count, 12 * 13'000'000'000 / 120);
  const TaskId read = find(plan, "read.S.105");
  EXPECT_TRUE(waits(task(plan, "write.S.112").after, find(plan, "U.112")));
  EXPECT_TRUE(waits(task(plan, "write.S.112").after, read));
  EXPECT_TRUE(waits(task(plan, "write.W.112").after, read));
  EXPECT_TRUE(waits(task(plan, "read.S.105").after, find(plan, "write.S.119")));  // two slots
  for (int block = 105; block < 112; ++block) {
    EXPECT_TRUE(waits(task(plan, "U.105").after, find(plan, "down.G." + std::to_string(block))));
    EXPECT_TRUE(waits(task(plan, "read.W.F." + std::to_string(block)).after_previous,
                      find(plan, "write.W.105")));
  }
}

TEST(FuyouProgram, NaiveHandlersRunOneAfterTheOther) {
  FuyouProblem question = question_13b(8);
  question.order = HandlerOrder::naive;
  const Plan plan = fuyou_program(question);
  EXPECT_TRUE(waits(task(plan, "read.S.112").after, find(plan, "write.W.119")));
  EXPECT_TRUE(waits(task(plan, "read.S.112").after, find(plan, "down.G.112")));
  question.order = HandlerOrder::serial;
  const Plan serial = fuyou_program(question);
  EXPECT_TRUE(waits(task(serial, "read.S.112").after, find(serial, "down.G.0")));
}

TEST(FuyouProgram, AGroupNeedNotFillAndALayerMayExceedIt) {
  FuyouProblem question = question_13b(8);
  question.group_parameters = 1e12;  // one group
  std::set<int> handled;
  for (const Task& one : fuyou_program(question).tasks) {
    if (one.kind == TaskKind::update) handled.insert(one.block);
  }
  EXPECT_EQ(handled, std::set<int>{0});
  question.group_parameters = 1;  // a group per block
  EXPECT_EQ(std::ranges::count(fuyou_program(question).tasks, TaskKind::update, &Task::kind), 120);
}

TEST(FuyouProgram, ThreeStepsReachTheSteadyState) {
  for (const HandlerOrder order :
       {HandlerOrder::serial, HandlerOrder::naive, HandlerOrder::delayed}) {
    FuyouProblem question = question_13b(32);
    question.order = order;
    const Plan plan = fuyou_program(question);
    EXPECT_NEAR(simulate(plan, 3).step.count, simulate(plan, 6).step.count, 1);
  }
}

TEST(FuyouProgram, TheModelChoosesWhatIsSwapped) {
  EXPECT_EQ(swapped_units(question_13b(8)), 1);     // drives bind
  EXPECT_EQ(swapped_units(question_13b(32)), 1.5);  // drives and GPU take equally long
  EXPECT_EQ(swapped_units(question_13b(64)), 9);    // the GPU binds, then the link
}

// With a CPU of its own and physical constants, each order hides more than the one before.
TEST(FuyouProgram, DelayedWriteBackBeatsNaiveBeatsSerial) {
  FuyouProblem question = question_13b(16);
  question.artifact = false;
  question.constants.launch_stall = 0;
  question.constants.overlap_stretch = 1;
  question.constants.host_work = question.constants.stage_host_work = 0.24e-9;  // 60 B, 250 GB/s
  double previous = INFINITY;
  for (const HandlerOrder order :
       {HandlerOrder::serial, HandlerOrder::naive, HandlerOrder::delayed}) {
    question.order = order;
    const double step = simulated_step(question);
    EXPECT_LT(step, 0.98 * previous);
    previous = step;
  }
}

// An update that holds the drives never helps, and costs what the closed form adds.
TEST(FuyouProgram, UpdatesThatHoldTheDrivesCostTheirTime) {
  FuyouProblem question = question_13b(8);
  const double artifact = simulated_step(question);
  question.artifact = false;
  const double apart = simulated_step(question);
  EXPECT_GT(artifact, apart + 4);  // of 0.98e-9 * 13e9 = 12.7 s what does not hide
}

TEST(FuyouProgram, NoStepIsShorterThanTheTieredBound) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    const auto any = [&random](double low, double high) {
      return std::exp(
          std::uniform_real_distribution<double>(std::log(low), std::log(high))(random));
    };
    FuyouProblem question;
    question.model.layers = static_cast<int>(1 + random() % 24);
    question.model.hidden = std::floor(any(256, 16384));
    question.model.parameters =
        12 * question.model.hidden * question.model.hidden * question.model.layers;
    question.model.tokens = std::floor(any(64, 1e5));
    question.model.host_available = any(1e8, 1e12);
    question.constants.flops = any(1e13, 1e15);
    question.constants.elementwise = any(50, 500);
    question.constants.rates = {any(1e9, 1e11), any(1e9, 1e11), any(1e9, 1e11)};
    question.constants.host_work = question.constants.stage_host_work = any(1e-11, 1e-9);
    question.group_parameters = any(1e7, 1e10);
    question.artifact = random() % 2 == 0;
    question.order = random() % 2 == 0 ? HandlerOrder::delayed : HandlerOrder::serial;

    const double swapped = swapped_units(question) * interblock_bytes(question.model);
    TieredProblem problem;
    problem.parameters = question.model.parameters;
    problem.tokens = question.model.tokens;
    problem.recomputed = 0;
    problem.flops = question.constants.flops;
    problem.traffic = kRatelTraffic;
    problem.swapped = swapped;
    problem.swapped_to_drives = std::max(0.0, swapped - question.model.host_available);
    problem.read_rate = question.constants.rates.read;
    problem.write_rate = question.constants.rates.write;
    problem.up_rate = problem.down_rate = question.constants.rates.link;
    problem.adam_rate = 1 / question.constants.host_work;
    const TieredBound bound = tiered_lower_bound(problem);
    EXPECT_GE(simulated_step(question), bound.seconds() * (1 - 1e-6))
        << "seed " << seed << " bound by " << bound.binding();
  }
}

}  // namespace
}  // namespace ferry
