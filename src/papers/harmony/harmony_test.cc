#include "papers/harmony/harmony.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "papers/harmony/sample_harmony.h"
#include "papers/papers.h"
#include "papers/timing/program_questions.h"

namespace ferry {
namespace {

const std::filesystem::path kFolder = FERRY_SOURCE_DIR "/tests/data/harmony_profiles";

// Harmony's GPUs, with the rates of its estimator.
Machine server(int gpus) {
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  Machine machine;
  machine.name = "1080ti";
  machine.host.memory_bandwidth = {16 * kGiB};
  for (int g = 0; g < gpus; ++g) {
    machine.devices.push_back({.name = "gpu" + std::to_string(g),
                               .kind = DeviceKind::cuda,
                               .index = g,
                               .memory = 11_GiB,
                               .up = {11.5 * kGiB},
                               .down = {11.5 * kGiB},
                               .p2p = {8.2 * kGiB}});
  }
  return machine;
}

PlanQuestion pure_question(const HarmonyProfile& profile, const char* strategy, int gpus,
                           int samples) {
  PlanQuestion question;
  question.machine = server(gpus);
  question.harmony = profile;
  question.profile = profile_at(profile, 1);
  question.micro_batches = samples;
  question.strategy = strategy;
  question.papers.pure = true;
  set_device_budgets(question, 10_GiB);
  question.host_budget = {std::int64_t{1} << 50};
  return question;
}

Planned planned(const PlanQuestion& question) {
  PlanAnswer answer = papers::answer(question);
  EXPECT_TRUE(std::holds_alternative<Planned>(answer));
  return std::get<Planned>(std::move(answer));
}

// A job's way to a row of the search's table.
TEST(HarmonyStrategy, PureQuestionsGetTheWinnerOfTheSearch) {
  const auto profile = read_harmony_profile((kFolder / "bert96.json").string());
  PlanQuestion question = pure_question(profile, "harmony-pp", 2, 32);
  question.papers.packing = "time, reuse / time";
  question.papers.prefetch = false;
  const Planned pp = planned(question);
  EXPECT_TRUE(pp.plan.timing_only);
  EXPECT_EQ(pp.plan.strategy, "harmony-pp");
  EXPECT_NEAR(pp.prediction.step.seconds(), 17.8738, 0.5e-4);
  EXPECT_GT(pp.lower_bound.seconds(), 10);
  EXPECT_LE(pp.lower_bound, pp.prediction.step);
  const auto& figures = pp.report.figures;
  EXPECT_EQ(figures.at("candidates"), 32);
  EXPECT_EQ(figures.at("u_fwd"), 8);
  EXPECT_EQ(figures.at("u_bwd"), 8);
  EXPECT_NEAR(figures.at("step_s_no_prefetch"), 17.8738, 0.5e-4);
  EXPECT_NEAR(figures.at("step_s_prefetch"), 17.2418, 0.5e-4);
  EXPECT_NEAR(figures.at("samples_per_s"), 32 / 17.8738, 1e-4);
  EXPECT_NEAR(figures.at("compute_share_prefetch"), 0.897, 0.5e-3);
  EXPECT_NEAR(figures.at("weights_in_bytes"), 9.43e9, 0.5e7);
  EXPECT_NEAR(pp.report.series.at("ranked_step_s").front(), 17.8738, 0.5e-4);
  ASSERT_EQ(pp.report.stages.size(), 19);
  EXPECT_EQ(pp.report.stages[0].direction, Direction::forward);
  EXPECT_EQ(pp.report.stages[1].device, "gpu1");
  EXPECT_EQ(pp.report.stages[9].direction, Direction::fused);
  EXPECT_EQ(pp.report.stages[9].first, 87);
  EXPECT_EQ(pp.report.stages[9].end, 100);
  EXPECT_EQ(pp.report.stages[18].direction, Direction::backward);
  EXPECT_EQ(pp.report.mapping.back(), 0);

  question.strategy = "harmony-dp";
  const Planned dp = planned(question);
  EXPECT_NEAR(dp.prediction.step.seconds(), 19.4213, 0.5e-4);
  EXPECT_EQ(dp.report.figures.at("candidates"), 24);
}

TEST(HarmonyStrategy, TheJobsTupleIsTaken) {
  const HarmonyProblem small = round_harmony(HarmonyMode::pipeline, 4, 2, 8);
  PlanQuestion question = pure_question(small.profile, "harmony-pp", 2, 8);
  question.options.stages = std::vector{1, 1};
  question.options.backward_stages = std::vector{2, 2};
  question.papers.forward_batch = 4;
  question.papers.backward_batch = 2;
  const Planned given = planned(question);
  EXPECT_EQ(given.report.figures.at("candidates"), 1);
  EXPECT_EQ(given.report.stages.size(), 4);
  EXPECT_EQ(given.plan.micro_batches, 4);
  const HarmonyProblem problem{small.profile, HarmonyMode::pipeline,
                               harmony_server(question.machine), 8};
  const HarmonyTuple tuple{4, {{0, 1}, {1, 2}}, 2, {{0, 2}, {2, 4}}};
  EXPECT_EQ(given.prediction.step, estimate(write_harmony_program(problem, tuple, true)).step);

  question.options.backward_stages.reset();
  EXPECT_THROW(papers::answer(question), UserError);  // not all layers
  question.options.stages = std::vector{1, 1, 2};     // of both passes
  EXPECT_EQ(planned(question).report.stages.size(), 5);
}

TEST(HarmonyStrategy, GivenPacksBeyondTheBudgetDoNotFit) {
  const HarmonyProblem small = round_harmony(HarmonyMode::pipeline, 4, 2, 8);
  PlanQuestion question = pure_question(small.profile, "harmony-pp", 2, 8);
  question.options.stages = std::vector{1, 1};
  question.options.backward_stages = std::vector{2, 2};
  set_device_budgets(question, 1_B);
  const ProgramAnswer tiny = program_harmony_pp(question);
  ASSERT_TRUE(std::holds_alternative<Shortage>(tiny));
  const Bytes need = std::get<Shortage>(tiny).need;
  EXPECT_GT(need, 1_B);

  set_device_budgets(question, need);
  planned(question);
  set_device_budgets(question, need - 1_B);
  const ProgramAnswer less = program_harmony_pp(question);
  ASSERT_TRUE(std::holds_alternative<Shortage>(less));
  EXPECT_EQ(std::get<Shortage>(less).need, need);
  EXPECT_EQ(std::get<Shortage>(less).have, need - 1_B);
}

TEST(HarmonyStrategy, AnOrdinaryProfileHasItsOneSize) {
  Profile profile;
  profile.name = "by hand";
  profile.micro_batch_size = 2;
  BlockProfile layer;
  layer.key = "layer";
  layer.forward = from_seconds(1);
  layer.backward = from_seconds(3);
  layer.weights = layer.gradients = 1_GiB;
  layer.activation = 1_MiB;
  profile.blocks = {layer};
  profile.chain = {0, 0, 0, 0};
  PlanQuestion question =
      pure_question(round_harmony(HarmonyMode::pipeline, 1, 1, 1).profile, "harmony-pp", 2, 4);
  question.harmony.reset();
  question.profile = profile;
  question.micro_batch_size = 2;
  set_device_budgets(question, 5_GiB);  // two layers
  const Planned planned_one = planned(question);
  EXPECT_EQ(planned_one.report.figures.at("u_fwd"), 2);
  EXPECT_EQ(planned_one.report.figures.at("u_bwd"), 2);
  EXPECT_EQ(planned_one.plan.micro_batches, 4);
  EXPECT_GT(planned_one.prediction.step.seconds(), 4 * (2 + 12) / 2.0);
}

TEST(HarmonyStrategy, WhatCannotBePackedIsSaid) {
  const HarmonyProblem small = round_harmony(HarmonyMode::pipeline, 4, 2, 8);
  PlanQuestion question = pure_question(small.profile, "harmony-pp", 2, 8);
  set_device_budgets(question, 299_B);
  const ProgramAnswer answer = program_harmony_pp(question);
  ASSERT_TRUE(std::holds_alternative<Shortage>(answer));
  EXPECT_EQ(std::get<Shortage>(answer).need, 301_B);
  EXPECT_EQ(std::get<Shortage>(answer).have, 299_B);
  const PlanAnswer remedied = papers::answer(question);
  ASSERT_TRUE(std::holds_alternative<DoesNotFit>(remedied));
  const DoesNotFit& lacking = std::get<DoesNotFit>(remedied);
  ASSERT_FALSE(lacking.remedies.empty());
  EXPECT_EQ(lacking.remedies.front().change, "budget.device: 1 MiB");
  EXPECT_GT(lacking.remedies.front().step, Micros{});

  set_device_budgets(question, 300_B);  // fits, but greedy wants less than that
  question.papers.packing = "greedy";
  ASSERT_TRUE(std::holds_alternative<Shortage>(program_harmony_pp(question)));
  set_device_budgets(question, 10_GiB);
  question.strategy = "harmony-dp";
  question.micro_batches = 9;
  EXPECT_THROW(papers::answer(question), UserError);  // nine samples on two GPUs
}

}  // namespace
}  // namespace ferry
