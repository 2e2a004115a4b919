#include "papers/mobius/mobius_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/error.h"
#include "exec/simulator.h"
#include "papers/mobius/mobius_on_links.h"
#include "papers/papers.h"
#include "papers/timing/program_questions.h"
#include "plan/verify.h"
#include "planner/sample_questions.h"

namespace ferry {
namespace {

StageCosts stage(double forward, double backward, double forward_memory, double backward_memory,
                 double upload, double activation, double gradient) {
  StageCosts costs;
  costs.forward_time = forward;
  costs.backward_time = backward;
  costs.forward_memory = forward_memory;
  costs.backward_memory = backward_memory;
  costs.forward_upload = costs.backward_upload = upload;
  costs.activation = activation;
  costs.activation_gradient = gradient;
  return costs;
}

MobiusProgram program_of(int devices, int micro_batches, double memory, double bandwidth,
                         std::vector<StageCosts> stages) {
  MobiusProgram program;
  program.problem.devices = devices;
  program.problem.micro_batches = micro_batches;
  program.problem.memory = memory;
  program.problem.bandwidth = bandwidth;
  program.stages = std::move(stages);
  for (int j = 1; j <= static_cast<int>(program.stages.size()); ++j) program.ends.push_back(j);
  for (int d = 0; d < devices; ++d) {
    program.device_of_slot.push_back(devices - 1 - d);
    program.devices.push_back("gpu" + std::to_string(d));
  }
  return program;
}

double simulated(const MobiusProgram& program) {
  const Plan plan = write_mobius_program(program);
  EXPECT_FALSE(verify(plan));
  return simulate(plan, 1).step.count;
}

TEST(MobiusProgram, TheEvaluatorsVectorsAreSimulatedExactly) {
  const std::vector<StageCosts> one(4, stage(1, 2, 1, 2, 1, 0, 0));
  EXPECT_NEAR(simulated(program_of(2, 2, 10, 1e9, one)), 15.0, 1e-8);
  const std::vector<StageCosts> two(4, stage(1, 2, 4, 5, 4, 0, 0));
  EXPECT_NEAR(simulated(program_of(2, 2, 10, 1, two)), 17.0, 1e-9);
  const std::vector<StageCosts> four(4, stage(1, 2, 1, 2, 1, 1, 1));
  EXPECT_NEAR(simulated(program_of(2, 3, 10, 2, four)), 22.0, 1e-9);
  const std::vector<StageCosts> six = {stage(1, 2, 3, 4, 2, .5, .25), stage(1, 3, 3, 5, 2, .5, .25),
                                       stage(2, 4, 4, 6, 3, .5, .25), stage(1, 2, 3, 4, 2, .5, .25),
                                       stage(2, 5, 5, 7, 4, .5, .25)};
  EXPECT_NEAR(simulated(program_of(2, 2, 8, 1, six)), 36.5, 1e-9);
}

TEST(MobiusProgram, AnyFeasiblePartitionTakesWhatTheEvaluatorSays) {
  std::mt19937_64 random(2);
  const auto pick = [&](int most) { return 0.25 * static_cast<double>(random() % (4U * most)); };
  for (int round = 0; round < 500; ++round) {
    std::vector<StageCosts> stages;
    const std::size_t count = 1 + random() % 9;
    for (std::size_t j = 0; j < count; ++j) {
      const double weights = 1 + pick(6);
      stages.push_back(stage(0.5 + pick(4), 0.5 + pick(9), weights + pick(2), weights + pick(4),
                             weights, pick(2), pick(2)));
      stages.back().backward_upload += pick(2);
    }
    const MobiusProgram program =
        program_of(1 + static_cast<int>(random() % 4), 1 + static_cast<int>(random() % 4), 12,
                   0.5 + pick(3), stages);
    const StageSchedule schedule = evaluate_stages(program.problem, program.stages);
    ASSERT_TRUE(schedule.feasible);
    const Plan plan = write_mobius_program(program);
    const Simulation simulation = simulate(plan, 3);
    EXPECT_NEAR(simulation.first_step.count, schedule.step, 1e-9 * schedule.step) << round;
    EXPECT_NEAR(simulation.step.count, schedule.step, 1e-9 * schedule.step) << round;
  }
}

// Test vectors P1 and P2 of the partitioner, in tenths of their units where bytes are whole.
Profile six_layers() {
  Profile profile = equal_profile(6, 1, 3);
  BlockProfile block = profile.blocks.front();
  block.weights = 20_B;
  block.forward_workspace = 5_B;
  block.backward_workspace = 15_B;
  block.activation = block.activation_gradient = 2_B;
  profile.blocks = {block, block, block};
  profile.blocks[1].key = "first";
  profile.blocks[1].activation_gradient = 0_B;
  profile.blocks[2].key = "last";
  profile.blocks[2].forward = {2};
  profile.blocks[2].backward = {6};
  profile.blocks[2].weights = 30_B;
  profile.chain.front() = 1;
  profile.chain.back() = 2;
  return profile;
}

PlanQuestion partitioner_question(int micro_batches) {
  PlanQuestion question = pure_question("mobius", 2, micro_batches, six_layers());
  for (MachineDevice& device : question.machine.devices) {
    device.memory = 120_B;
    device.up = device.down = {10e6};
  }
  return question;
}

TEST(MobiusProgram, ThePartitionersVectorsComeThroughTheStrategy) {
  const Planned first = must_fit(partitioner_question(2), papers::answer);
  EXPECT_NEAR(first.prediction.step.count, 37.8, 1e-9);
  ASSERT_EQ(first.report.stages.size(), 4U);
  EXPECT_EQ(first.report.stages[1].first, 1);
  EXPECT_EQ(first.report.stages[2].first, 3);
  EXPECT_EQ(first.report.stages[3].first, 5);
  EXPECT_NEAR(must_fit(partitioner_question(4), papers::answer).prediction.step.count, 64.0, 1e-9);
  PlanQuestion finest = partitioner_question(2);
  finest.options.stages = std::vector<int>(6, 1);
  EXPECT_NEAR(must_fit(finest, papers::answer).prediction.step.count, 38.6, 1e-9);
  PlanQuestion whole = partitioner_question(2);
  whole.options.stages = std::vector<int>{6};
  EXPECT_TRUE(std::holds_alternative<DoesNotFit>(papers::answer(whole)));
}

TEST(MobiusProgram, MappingsAreReportedWithTheirContention) {
  PlanQuestion question = pure_question("mobius", 4, 4, equal_profile(8, 10, 30));
  question.options.stages = std::vector<int>(8, 1);
  question.machine.roots = {{"root0", {1e6}, {1e6}}, {"root1", {1e6}, {1e6}}};
  for (std::size_t d = 0; d < 4; ++d) question.machine.devices[d].root = d < 2 ? 0 : 1;
  const Planned cross = must_fit(question, papers::answer);
  EXPECT_NEAR(cross.report.figures.at("contention_degree"), 8.6667, 5e-5);
  EXPECT_NEAR(cross.report.figures.at("contention_degree_sequential"), 12.1333, 5e-5);
  question.options.map = MapRule::sequential;
  const Planned sequential = must_fit(question, papers::answer);
  EXPECT_NEAR(sequential.report.figures.at("contention_degree"), 12.1333, 5e-5);
  EXPECT_EQ(sequential.report.mapping, (std::vector<int>{0, 1, 2, 3, 0, 1, 2, 3}));
  question.options.devices = std::vector<int>{0, 2, 1, 3};
  EXPECT_NEAR(must_fit(question, papers::answer).report.figures.at("contention_degree"), 8.6667,
              5e-5);
  question.options.devices = std::vector<int>{0, 0, 1, 3};
  EXPECT_THROW(papers::answer(question), UserError);
}

// 2 P up in forward, 2 P (1 - N / S) in backward, 2 P down.
TEST(MobiusProgram, WeightsMoveOncePerPass) {
  Profile profile = equal_profile(8, 10, 30);
  profile.blocks.front().weights = profile.blocks.front().gradients = 1000_B;  // P = 4000
  PlanQuestion question = pure_question("mobius", 4, 4, profile);
  question.options.stages = std::vector<int>(8, 1);
  const PlanReport report = must_fit(question, papers::answer).report;
  EXPECT_EQ(report.figures.at("traffic_up_bytes"), 8000 + 8000 * 0.5);
  EXPECT_EQ(report.figures.at("traffic_down_bytes"), 8000);
}

TEST(MobiusOnLinks, ContentionNeverSpeedsUpAndTheSplitRootCostsNoMore) {
  Profile profile = equal_profile(8, 10, 30);
  profile.blocks.front().weights = profile.blocks.front().gradients = 100_B;
  profile.blocks.front().activation = profile.blocks.front().activation_gradient = 1_B;
  PlanQuestion question = pure_question("mobius", 4, 4, profile);
  question.options.stages = std::vector<int>(8, 1);
  const auto step = [&] {
    const auto program = std::get<MobiusProgram>(choose_mobius_program(question));
    const Plan plan = write_mobius_on_links(question, program);
    EXPECT_FALSE(verify(plan));
    return simulate(plan).step.count;
  };
  const double alone = step();
  EXPECT_GE(alone, must_fit(question, papers::answer).prediction.step.count - 1e-6);
  question.machine.roots = {{"root0", {1e6}, {1e6}}, {"root1", {1e6}, {1e6}}};
  for (std::size_t d = 0; d < 4; ++d) question.machine.devices[d].root = d < 2 ? 0 : 1;
  const double split = step();
  for (MachineDevice& device : question.machine.devices) device.root = 0;
  const double one = step();
  EXPECT_LE(alone, split + 1e-6);
  EXPECT_LE(split, one + 1e-6);
}

}  // namespace
}  // namespace ferry
