// gpipe, 1f1b, interleaved and mixed-pipe: what their plans hold, promise and take.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "planner/planner.h"
#include "planner/sample_questions.h"

namespace ferry {
namespace {

constexpr const char* kPipelines[] = {"gpipe", "1f1b", "interleaved", "mixed-pipe"};

/// Four devices that do not share cores: time is that of the pipeline alone.
PlanQuestion four_devices(const SampleModel& model, int micro_batches) {
  SampleMachine machine;
  machine.devices = 4;
  machine.cores = 16;
  machine.link_rate = 1e9;
  return sample_question(model, machine, micro_batches);
}

std::vector<std::string> homes_of(const Plan& plan) {
  std::vector<std::string> result;
  for (const Instance& instance : plan.instances) {
    if (!instance.home) continue;
    result.push_back(value_name(plan.values[instance.value]) + "@" +
                     plan.places[instance.place].name + "+" +
                     std::to_string(instance.offset.count));
  }
  return result;
}

int copies_of(const Plan& plan, ValueKind kind) {
  return static_cast<int>(std::ranges::count_if(plan.tasks, [&](const Task& task) {
    if (task.kind != TaskKind::copy) return false;
    const Instance& from = plan.instances[task.reads.front()];
    return plan.values[from.value].kind == kind;
  }));
}

TEST(Pipelines, EveryAnswerHoldsWhatItPromises) {
  std::uint64_t planned_ones = 0;
  for (std::uint64_t seed = 1; seed <= random_share(40); ++seed) {
    for (const char* strategy : kPipelines) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " " + strategy);
      PlanQuestion question = random_question(seed);
      question.strategy = strategy;
      set_device_budgets(question, device_budget(question, 0).bytes * 3);
      question.clips = seed % 2 == 0;
      const PlanAnswer answer = make_plan(question);
      if (const auto* lacking = std::get_if<DoesNotFit>(&answer)) {
        EXPECT_GT(lacking->need, lacking->have);
        continue;
      }
      ++planned_ones;
      const Planned& planned = std::get<Planned>(answer);
      expect_promises_hold(planned);
    }
  }
  expect_enough(planned_ones, 80);
}

TEST(Pipelines, MoreDeviceMemoryNeverHurts) {
  for (const char* strategy : kPipelines) {
    for (const PlanMode mode : {PlanMode::train, PlanMode::evaluate}) {
      PlanQuestion question = four_devices({.tied = true, .layers = 5}, 3);
      question.strategy = strategy;
      question.mode = mode;
      bool fitted = false;
      int changes = 0;
      for (std::int64_t budget = 20'000; budget < 2'000'000; budget = budget * 8 / 5) {
        set_device_budgets(question, {budget});
        const bool fits = std::holds_alternative<Planned>(make_plan(question));
        EXPECT_TRUE(fits || !fitted) << strategy << " " << budget;
        changes += fits != fitted ? 1 : 0;
        fitted = fits;
      }
      EXPECT_EQ(changes, 1);
    }
  }
}

// An evaluation runs on the memory of the training that it interrupts.
TEST(Pipelines, TrainingAndEvaluationShareTheHomes) {
  for (const char* strategy : kPipelines) {
    for (const bool tied : {false, true}) {
      SCOPED_TRACE(strategy);
      PlanQuestion question = four_devices({.tied = tied, .layers = 6}, 4);
      question.strategy = strategy;
      const Planned train = must_fit(question);
      question.mode = PlanMode::evaluate;
      const Planned evaluate = must_fit(question);
      EXPECT_EQ(homes_of(train.plan), homes_of(evaluate.plan));
      for (std::size_t p = 0; p < 4; ++p) {
        EXPECT_LE(evaluate.prediction.peak[p], train.prediction.peak[p]);
      }
    }
  }
}

TEST(Pipelines, WhatIsInFlightFollowsTheRule) {
  PlanQuestion question = four_devices({.layers = 6}, 6);
  question.strategy = "gpipe";
  EXPECT_EQ(must_fit(question).report.series.at("in_flight"), (std::vector<double>{6, 6, 6, 6}));
  question.strategy = "1f1b";
  EXPECT_EQ(must_fit(question).report.series.at("in_flight"), (std::vector<double>{4, 3, 2, 1}));
  question.micro_batches = 2;
  EXPECT_EQ(must_fit(question).report.series.at("in_flight"), (std::vector<double>{2, 2, 2, 1}));
}

// One forward, one backward keeps less than all forward, all backward, in as much time.
TEST(Pipelines, OneForwardOneBackwardTakesLessMemoryThanGpipeInEqualTime) {
  PlanQuestion question = four_devices({.layers = 7}, 8);
  use_round_costs(question);
  question.strategy = "gpipe";
  const Planned gpipe = must_fit(question);
  question.strategy = "1f1b";
  const Planned ours = must_fit(question);
  EXPECT_LT(ours.prediction.peak[0], gpipe.prediction.peak[0]);
  EXPECT_LE(ours.prediction.step.count, gpipe.prediction.step.count * 1.01);
}

// M / (M + (P - 1) / v): with more chunks the bubble shrinks.
TEST(Pipelines, InterleavingShortensTheStep) {
  PlanQuestion question = four_devices({.layers = 12}, 8);
  use_round_costs(question);
  question.profile.update_rate = 1e9;
  question.strategy = "1f1b";
  const Micros plain = must_fit(question).prediction.step;
  question.strategy = "interleaved";
  const Micros two = must_fit(question).prediction.step;
  question.options.chunks = 4;
  const Micros four = must_fit(question).prediction.step;
  EXPECT_LT(two, plain * 0.95);
  EXPECT_LT(four, two);
}

TEST(Pipelines, OnlyWhatCrossesDevicesIsCopied) {
  PlanQuestion question = four_devices({.tied = true, .layers = 6}, 3);
  question.strategy = "1f1b";
  const Plan plan = must_fit(question).plan;
  EXPECT_EQ(copies_of(plan, ValueKind::activation), 3 * 3 * 2);
  EXPECT_EQ(copies_of(plan, ValueKind::activation_gradient), 3 * 3 * 2);
  EXPECT_EQ(copies_of(plan, ValueKind::state), 0);
  EXPECT_EQ(copies_of(plan, ValueKind::weight), 2);    // the tied head's, by the host
  EXPECT_EQ(copies_of(plan, ValueKind::gradient), 2);  // its sum, back
  question.options.devices = {{0, 1, 2, 0}};
  const Plan together = must_fit(question).plan;
  EXPECT_EQ(copies_of(together, ValueKind::weight), 0);
  EXPECT_EQ(copies_of(together, ValueKind::gradient), 0);
}

TEST(Pipelines, OneDeviceTakesNoMoreThanResident) {
  for (const bool tied : {false, true}) {
    PlanQuestion question = sample_question({.tied = tied, .layers = 3}, {}, 3);
    question.strategy = "resident";
    const Planned resident = must_fit(question);
    question.strategy = "1f1b";
    const Planned pipeline = must_fit(question);
    EXPECT_LE(pipeline.prediction.step.count, resident.prediction.step.count * (1 + 1e-9));
    EXPECT_EQ(copies_of(pipeline.plan, ValueKind::activation), 0);
  }
}

TEST(Pipelines, TheJobsOwnCutAndDevicesAreTaken) {
  PlanQuestion question = four_devices({.layers = 2}, 2);
  const int blocks = static_cast<int>(question.model.blocks.size());
  question.strategy = "1f1b";
  question.options.stages = {{1, 2, blocks - 3}};
  question.options.devices = {{2, 0, 1}};
  const Planned planned = must_fit(question);
  EXPECT_EQ(planned.report.mapping, (std::vector<int>{2, 0, 1}));
  ASSERT_EQ(planned.report.stages.size(), 3U);
  EXPECT_EQ(planned.report.stages[1].first, 1);
  EXPECT_EQ(planned.report.stages[1].end, 3);
  EXPECT_EQ(planned.report.stages[0].device, "gpu2");
  question.options.stages = {{1, 2}};
  EXPECT_THROW(make_plan(question), UserError);
  question.options.stages = {{1, 2, blocks - 3}};
  question.options.devices = {{2, 0, 4}};
  EXPECT_THROW(make_plan(question), UserError);
}

// 48 equal blocks on 8 devices: one stage per device takes 7.16 s, three blocks per stage in
// turn 6.0.
TEST(Pipelines, MixedPipeIsNoSlowerThanItsOwnPlanOfStagesInTurn) {
  SampleMachine machine;
  machine.devices = 8;
  machine.cores = 64;
  machine.link_rate = 1e12;
  PlanQuestion question = sample_question({}, machine, 8);
  question.strategy = "mixed-pipe";
  question.model = {};
  BlockProfile block;
  block.key = "block";
  block.forward = Micros{20'000};
  block.backward = Micros{60'000};
  block.weights = Bytes{1'000'000};
  block.gradients = Bytes{2'000'000};
  block.parameters = 500'000;
  block.activation = block.activation_gradient = Bytes{100};
  question.profile.blocks = {block};
  question.profile.chain.assign(48, 0);
  question.profile.device_update_rate = 1e12;
  const Micros step = must_fit(question).prediction.step;
  for (const int blocks : {1, 2, 3, 6}) {
    SCOPED_TRACE(std::to_string(blocks) + " blocks per stage");
    PlanQuestion asked = question;
    asked.options.stages = std::vector<int>(48 / blocks, blocks);
    asked.options.devices = {{0, 1, 2, 3, 4, 5, 6, 7}};
    EXPECT_LE(step.count, must_fit(asked).prediction.step.count * (1 + 1e-9));
  }
}

// A changed golden plan is a changed planner: look at the difference, then replace the file.
TEST(Pipelines, GoldenPlan) {
  SampleMachine machine;
  machine.devices = 2;
  machine.link_rate = 1e8;
  PlanQuestion question = sample_question({.gpt2 = true, .tied = true, .layers = 1}, machine, 2);
  question.strategy = "1f1b";
  use_round_costs(question);
  const Planned planned = must_fit(question);
  std::ifstream file(std::string(FERRY_SOURCE_DIR) + "/src/planner/testdata/1f1b.plan");
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(to_text(planned.plan), golden.str());
}

}  // namespace
}  // namespace ferry
