#include "planner/planner.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "base/error.h"
#include "planner/costs/estimate.h"
#include "planner/sample_questions.h"
#include "planner/strategies/strategies.h"

namespace ferry {
namespace {

TEST(Planner, EveryAnswerHoldsWhatItPromises) {
  std::uint64_t planned_ones = 0;
  for (std::uint64_t seed = 1; seed <= random_share(140); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const PlanAnswer answer = make_plan(random_question(seed));
    if (const auto* lacking = std::get_if<DoesNotFit>(&answer)) {
      EXPECT_GT(lacking->need, lacking->have);
      continue;
    }
    ++planned_ones;
    const Planned& planned = std::get<Planned>(answer);
    expect_promises_hold(planned);
    const Simulation& prediction = planned.prediction;
    const double step = prediction.step.count * (1 + 1e-9);
    EXPECT_GE(step, prediction.busiest.count) << prediction.busiest_name;
    EXPECT_GE(prediction.first_step.count * (1 + 1e-9), prediction.critical_path.count);
  }
  expect_enough(planned_ones, 40);
}

TEST(Planner, TheSearchTellsWhichStrategyIsTried) {
  struct Listener final : PhaseListener {
    void progress(const Progress& progress) override { told.push_back(progress); }
    std::vector<Progress> told;
  } listener;
  const PlanAnswer answer = search_plan(sample_question({}, {}, 2), listener);
  const std::size_t tried = std::get<Planned>(answer).candidates.size();
  ASSERT_EQ(listener.told.size(), tried + 1) << "each strategy, and the end";
  EXPECT_EQ(listener.told.front().what, "planning");
  EXPECT_EQ(listener.told.front().part, strategies().front().name);
  EXPECT_EQ(listener.told.back().done, listener.told.back().total);
}

TEST(Planner, EqualQuestionsGetEqualTexts) {
  for (std::uint64_t seed = 1; seed <= random_share(30); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const PlanAnswer first = make_plan(random_question(seed));
    const PlanAnswer second = make_plan(random_question(seed));
    ASSERT_EQ(first.index(), second.index());
    if (const auto* planned = std::get_if<Planned>(&first)) {
      EXPECT_EQ(to_text(planned->plan), to_text(std::get<Planned>(second).plan));
    }
  }
}

TEST(Planner, MoreDeviceMemoryNeverHurts) {
  for (std::uint64_t seed = 1; seed <= random_share(15); ++seed) {
    PlanQuestion question = random_question(seed);
    bool fitted = false;
    for (std::int64_t budget = 20'000; budget < 60'000'000; budget = budget * 3 / 2) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", budget " + std::to_string(budget));
      set_device_budgets(question, {budget});
      const PlanAnswer answer = make_plan(question);
      const bool fits = std::holds_alternative<Planned>(answer);
      EXPECT_TRUE(fits || !fitted);
      fitted = fits;
    }
  }
}

// The acceptance bar of the capped runs: an eighth of the states, in many equal blocks.
TEST(Planner, StreamingFitsIntoAnEighthOfTheStates) {
  for (const int devices : {1, 2, 4}) {
    for (const int micro_batches : {1, 3, 4}) {
      SCOPED_TRACE(std::to_string(devices) + " devices, " + std::to_string(micro_batches));
      SampleMachine machine;
      machine.devices = devices;
      PlanQuestion question =
          sample_question({.layers = 12, .hidden = 128, .vocab = 256}, machine, micro_batches);
      set_device_budgets(question, {states_of(question).count / 8});
      const Planned planned = must_fit(question);
      const std::set<std::string> at_home_on_devices = {"resident", "1f1b", "gpipe", "interleaved",
                                                        "mixed-pipe"};
      for (const Candidate& candidate : planned.candidates) {
        EXPECT_EQ(candidate.fits, !at_home_on_devices.contains(candidate.strategy))
            << candidate.strategy;
      }
    }
  }
}

// What still crosses the link does so beside computation.
TEST(Planner, NextToNothingStreamsWhereEverythingFits) {
  SampleMachine machine;
  machine.threads = machine.cores;  // no core is free to update while the device computes
  machine.link_rate = 20e6;         // and what streams waits for it
  const PlanQuestion question = sample_question({}, machine, 2);
  const Planned planned = must_fit(question);
  Bytes moved;
  for (const Task& task : planned.plan.tasks) {
    if (task.kind == TaskKind::copy && task.name.starts_with("W.")) moved += task.bytes;
  }
  EXPECT_LT(moved.count, states_of(question).count / 3 / 10);  // a third of states are weights
  PlanQuestion resident = question;
  resident.strategy = "resident";
  EXPECT_LE(planned.prediction.step, must_fit(resident).prediction.step);
}

// A checkpointed run evaluates with another plan on the same memory. (Beside training that has
// homes on devices: with_evaluation_test.cc.)
TEST(Planner, TrainingAndEvaluationShareTheHomeRegion) {
  for (const char* strategy : {"resident", "mobius"}) {
    SCOPED_TRACE(strategy);
    PlanQuestion question = sample_question({.tied = true}, {}, 2);
    question.strategy = strategy;
    question.options.without = "homes";
    const Plan train = must_fit(question).plan;
    question.mode = PlanMode::evaluate;
    const Plan evaluate = must_fit(question).plan;
    const auto homes = [](const Plan& plan) {
      std::vector<std::string> result;
      for (const Instance& instance : plan.instances) {
        if (!instance.home) continue;
        const auto& value = plan.values[instance.value];
        result.push_back(value_name(value) + "@" + plan.places[instance.place].name + " " +
                         std::to_string(instance.offset.count));
      }
      return result;
    };
    EXPECT_EQ(homes(train), homes(evaluate));
    EXPECT_EQ(homes(train).front().substr(0, 3), "W.0");
    EXPECT_EQ(homes(train).front().back(), '0');
  }
}

TEST(Planner, WrongQuestionsAreRefused) {
  PlanQuestion question = sample_question({}, {}, 2);
  question.strategy = "mobias";
  EXPECT_THROW(make_plan(question), UserError);
  question = sample_question({}, {}, 2);
  question.micro_batches = 0;
  EXPECT_THROW(make_plan(question), UserError);
  question = sample_question({}, {}, 2);
  question.sequence = 32;  // the profile is of 16
  EXPECT_THROW(make_plan(question), UserError);
  question = sample_question({}, {}, 2);
  question.profile.blocks.pop_back();
  EXPECT_THROW(make_plan(question), UserError);
}

std::string refusal(const PlanQuestion& question) {
  try {
    make_plan(question);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

// 128 devices once ended in a broken invariant: "514 resources are more than 512".
TEST(Planner, AHundredAndTwentyEightDevicesArePlanned) {
  PlanQuestion question = sample_question({}, {.devices = 128, .link_rate = 1e9}, 2);
  question.strategy = "zero";
  EXPECT_EQ(refusal(question), "");
}

TEST(Planner, AStepBeyondWhatAPlanHoldsIsRefusedAtOnce) {
  PlanQuestion question = sample_question({}, {}, 2);
  question.micro_batches = 100'000;
  EXPECT_EQ(refusal(question),
            "train.micro_batches: 100000 micro-batches through 7 blocks; a plan has at most 28571 "
            "of them here\n  try: fewer, with a larger train.micro_batch_size");
  question = sample_question({}, {}, 1);
  question.model = {};
  question.profile.chain.assign(2501, 1);
  EXPECT_EQ(refusal(question), "a chain of 2501 blocks; a plan has at most 2500");
}

TEST(Planner, TimesBeyondWhatAPlanCanSayAreRefused) {
  PlanQuestion question = sample_question({}, {}, 2);
  question.profile = {};
  question.machine.devices[0].flops_fp32 = question.machine.devices[0].flops_bf16 = 1e-6;
  EXPECT_NE(refusal(question).find("would take"), std::string::npos) << refusal(question);
  question = sample_question({}, {}, 2);
  question.profile.update_rate = 1e-12;
  EXPECT_NE(refusal(question).find("would take"), std::string::npos) << refusal(question);
}

TEST(Planner, AQuestionWithoutAProfileIsEstimated) {
  PlanQuestion question = sample_question({}, {}, 2);
  const std::string with = to_text(must_fit(question).plan);
  question.profile = {};
  EXPECT_EQ(to_text(must_fit(question).plan), with);
}

// A changed golden plan is a changed planner: look at the difference, then replace the file.
void expect_golden(const PlanQuestion& question, const std::string& name, Micros step) {
  const Planned planned = must_fit(question);
  std::ifstream file(std::string(FERRY_SOURCE_DIR) + "/src/planner/testdata/" + name);
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(to_text(planned.plan), golden.str());
  EXPECT_NEAR(planned.prediction.step.count, step.count, 0.5);
}

TEST(Planner, GoldenResidentPlan) {
  PlanQuestion question = sample_question({.gpt2 = true, .tied = true, .layers = 1}, {}, 2);
  question.strategy = "resident";
  use_round_costs(question);
  expect_golden(question, "resident.plan", Micros{330352});
}

TEST(Planner, GoldenMobiusPlan) {
  SampleMachine machine;
  machine.devices = 2;
  machine.link_rate = 1e8;
  PlanQuestion question = sample_question({.gpt2 = true, .tied = true, .layers = 1}, machine, 2);
  question.strategy = "mobius";
  use_round_costs(question);
  expect_golden(question, "mobius.plan", Micros{169584});
}

}  // namespace
}  // namespace ferry
