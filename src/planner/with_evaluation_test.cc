// A job that evaluates asks for memory in which both of its plans fit, or is told what lacks.
#include "planner/with_evaluation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "plan/at_home.h"
#include "planner/costs/chain.h"
#include "planner/costs/estimate.h"
#include "planner/planner.h"
#include "planner/sample_questions.h"

namespace ferry {
namespace {

PlanQuestion evaluating(const SampleModel& model, int devices, const std::string& strategy) {
  PlanQuestion question = sample_question(model, {.devices = devices}, 2);
  question.strategy = strategy;
  question.evaluates = true;
  return question;
}

std::optional<Planned> plan_within(PlanQuestion question, Bytes device) {
  set_device_budgets(question, device);
  PlanAnswer answer = make_plan(question);
  if (auto* planned = std::get_if<Planned>(&answer)) return std::move(*planned);
  return std::nullopt;
}

/// The least budget that fits, to 2 KiB, without passes that only make plans faster.
Bytes thriftiest(PlanQuestion question) {
  question.options.without =
      "activations, homes, rings, updates, mapping, cross-mapping, mixed, cuts, even-cuts, blocks";
  Bytes low = 0_B, high = 2_MiB;
  while (high - low > 2_KiB) {
    const Bytes middle{(low + high).count / 2 / 512 * 512};
    (plan_within(question, middle) ? high : low) = middle;
  }
  return high;
}

/// And evaluation finds everything where training has it.
void expect_shared(const Planned& planned, Bytes device) {
  ASSERT_TRUE(planned.evaluation);
  const auto trained = homes_of(planned.plan);
  for (const auto& [name, home] : homes_of(*planned.evaluation)) {
    EXPECT_EQ(home, trained.at(name)) << name;
  }
  EXPECT_EQ(planned.evaluation->mode, PlanMode::evaluate);
  EXPECT_EQ(planned.evaluation->strategy, planned.plan.strategy);
  for (const PlaceId id : planned.plan.places.ids()) {
    const Place& place = planned.plan.places[id];
    const Place& other = planned.evaluation->places[id];
    EXPECT_LE(peak_bytes(planned, id), place.budget);
    EXPECT_EQ(place.budget, other.budget);
    EXPECT_EQ(place.workspace, other.workspace) << place.name;
    if (place.kind == PlaceKind::device) {
      EXPECT_LE(place.budget, device);
    }
  }
}

TEST(WithEvaluation, BothPlansFitTogetherInTheLeastBudgetThatIsAnswered) {
  const SampleModel models[] = {{}, {.tied = true}, {.gpt2 = true}, {.vocab = 512}};
  for (const SampleModel& model : models) {
    for (const char* strategy : {"mobius", "harmony-pp"}) {
      SCOPED_TRACE(std::string(strategy) + " vocab " + std::to_string(model.vocab));
      const PlanQuestion question = evaluating(model, 1, strategy);
      const Bytes least = thriftiest(question);
      for (const Bytes device : {least, least + 64_KiB}) {
        const auto planned = plan_within(question, device);
        ASSERT_TRUE(planned) << to_string(device);
        expect_shared(*planned, device);
      }
    }
  }
}

// Training's kernels may need far more than evaluation's, which then has to leave so much at once:
// it once left a little more with each try, and after six was refused.
TEST(WithEvaluation, WhatARefusalAsksForIsEnoughAndSoIsMore) {
  for (const int micro_batches : {1, 2}) {
    PlanQuestion question = evaluating({.layers = 8}, 1, "mobius");
    question.micro_batches = micro_batches;
    question.micro_batch_size = 8;
    question.profile = estimate_profile(question.model, question.machine, question.precision,
                                        {question.micro_batch_size, question.sequence});
    for (BlockProfile& block : question.profile.blocks) block.backward_workspace += 1_MiB;
    set_device_budgets(question, 512_B);
    const PlanAnswer refused = make_plan(question);
    const Bytes need = std::get<DoesNotFit>(refused).need;
    for (Bytes device = need; device < need + 256_KiB; device += 8_KiB) {
      SCOPED_TRACE(to_string(device) + ", " + std::to_string(micro_batches) + " micro-batches");
      const auto planned = plan_within(question, device);
      ASSERT_TRUE(planned);
      expect_shared(*planned, device);
    }
  }
}

// The head runs forward in its backward, and another stage's forward may come between it and its
// stage's other blocks. Evaluation once ran the head twice then.
TEST(WithEvaluation, AStageWhoseHeadRunsLaterRunsEveryBlockOnce) {
  for (const int micro_batches : {3, 6}) {
    PlanQuestion question = evaluating({.layers = 2}, 2, "1f1b");
    question.micro_batches = micro_batches;
    question.options.stages = {{2, 3, 2}};
    question.options.devices = {{0, 1, 0}};
    expect_shared(must_fit(question), 4_GiB);
  }
}

// Stages of a pipeline rest on their devices; evaluation once cut them its own way and was refused.
TEST(WithEvaluation, APipelinesStagesAreWhereTrainingHasThem) {
  for (const char* strategy : {"1f1b", "gpipe", "interleaved", "mixed-pipe"}) {
    SCOPED_TRACE(strategy);
    const PlanQuestion question = evaluating({.layers = 3, .vocab = 256}, 2, strategy);
    const Bytes least = thriftiest(question);
    for (const Bytes device : {least, least * 2}) {
      const auto planned = plan_within(question, device);
      ASSERT_TRUE(planned);
      expect_shared(*planned, device);
    }
  }
}

// Of a streaming strategy some blocks' states rest on devices, as many as have room beside the
// rest.
TEST(WithEvaluation, FindsTheStatesThatRestOnDevices) {
  int on_devices = 0;
  int on_host = 0;
  for (const int devices : {1, 2}) {
    for (const bool tied : {false, true}) {
      PlanQuestion question =
          evaluating({.tied = tied, .layers = 8, .hidden = 64}, devices, "mobius");
      for (MachineDevice& device : question.machine.devices) device.up = device.down = {1e7};
      const Bytes half{states_of(question).count / 2 / devices + (512_KiB).count};
      const auto planned = plan_within(question, half);
      ASSERT_TRUE(planned);
      expect_shared(*planned, half);
      for (const auto& [name, home] : homes_of(*planned->evaluation)) {
        const PlaceKind place = planned->plan.places[home.first].kind;
        ++(place == PlaceKind::device ? on_devices : on_host);
      }
    }
  }
  EXPECT_GT(on_devices, 0);
  EXPECT_GT(on_host, 0);
}

// Where states rest on drives evaluation's visits are training's. One micro-batch passes from stage
// to stage without a seam, and once was a visit that needs all weights at once. And training leaves
// no DRAM free but what its own states pass through.
TEST(WithEvaluation, OneMicroBatchNeedsNotAllWeightsAtOnce) {
  for (const auto& [strategy, devices] : {std::pair("mobius", 1), std::pair("harmony-dp", 2)}) {
    SCOPED_TRACE(strategy);
    PlanQuestion question = evaluating({.layers = 8, .hidden = 64}, devices, strategy);
    question.micro_batches = devices;  // of harmony-dp one each
    question.host_budget = Bytes{states_of(question).count / 2};
    question.machine.drives = {{.name = "ssd0", .capacity = 1_GiB, .read = {2e9}, .write = {1e9}}};
    const Bytes least = thriftiest(question);
    Bytes weights;
    for (const ChainBlock& block : make_chain(question).blocks) weights += block.weights;
    EXPECT_LT(least, weights);
    const auto planned = plan_within(question, least);
    ASSERT_TRUE(planned);
    expect_shared(*planned, least);
  }
}

TEST(WithEvaluation, WhatFitsOnlyWithoutItIsToldWithRemediesThatFitWithIt) {
  PlanQuestion question = evaluating({.vocab = 512}, 1, "mobius");
  const Bytes least = thriftiest(question);
  set_device_budgets(question, least - 4_KiB);
  const PlanAnswer answer = make_plan(question);
  const auto& no = std::get<DoesNotFit>(answer);
  EXPECT_EQ(no.place, "gpu0");
  EXPECT_GT(no.need, no.have);
  ASSERT_FALSE(no.remedies.empty());
}

TEST(WithEvaluation, AGivenPlanIsEvaluatedWithinItsOwnBudgets) {
  PlanQuestion question = evaluating({.vocab = 512}, 1, "mobius");
  const Bytes least = thriftiest(question);
  const Bytes host = peak_bytes(plan_within(question, least)->plan, PlaceId(1));
  question.host_budget = host;  // as little as trains
  const auto trained = plan_within(question, least);
  ASSERT_TRUE(trained);
  const Plan& training = trained->plan;
  set_device_budgets(question, least * 8);  // the plan's limits hold, not the job's
  question.host_budget = question.machine.host.memory;
  const auto evaluation = make_evaluation(question, training);
  const Plan* plan = std::get_if<Plan>(&evaluation);
  ASSERT_NE(plan, nullptr);
  const std::array<const Plan*, 2> both = {&training, plan};
  for (const PlaceId id : training.places.ids()) {
    EXPECT_LE(peak_bytes(both, id), training.places[id].budget);
  }
}

TEST(WithEvaluation, AGivenPlanThatLeavesItTooLittleIsToldWithRemedies) {
  PlanQuestion question = evaluating({.vocab = 512}, 1, "mobius");
  auto trained = plan_within(question, 2_MiB);
  ASSERT_TRUE(trained);
  trained->plan.places[PlaceId(0)].budget = 64_KiB;

  const auto roomy = make_evaluation(question, trained->plan);
  const auto& no = std::get<DoesNotFit>(roomy);
  EXPECT_EQ(no.limit_source, "the plan");
  EXPECT_GT(no.need, no.have);
  ASSERT_EQ(no.remedies.size(), 1u);
  EXPECT_EQ(no.remedies.front().change, "a new plan (ferry plan)");
  EXPECT_GT(no.remedies.front().step, Micros{});

  set_device_budgets(question, 64_KiB);
  const auto tight = make_evaluation(question, trained->plan);
  const auto& remedies = std::get<DoesNotFit>(tight).remedies;
  EXPECT_TRUE(std::ranges::any_of(
      remedies, [](const Remedy& remedy) { return remedy.change.starts_with("budget.device: "); }));
}

}  // namespace
}  // namespace ferry
