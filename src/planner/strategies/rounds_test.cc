#include "planner/strategies/rounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "planner/answer.h"
#include "planner/costs/estimate.h"
#include "planner/sample_questions.h"
#include "planner/strategies/mobius.h"
#include "spec/pass_names.h"

namespace ferry {
namespace {

// Of 32 micro-batches, whose inputs take more of DRAM than the gradient sums do.
PlanQuestion of_many_micro_batches() {
  PlanQuestion question = sample_question({.layers = 6, .hidden = 64}, {.link_rate = 1e8}, 32);
  question.strategy = "mobius";
  question.options.without = pass_name::kBlocks;
  question.sequence = 64;
  question.profile =
      estimate_profile(question.model, question.machine, question.precision, {1, 64});
  use_round_costs(question);
  set_device_budgets(question, Bytes{states_of(question).count / 4});
  return question;
}

int rounds_of(const Planned& planned) {
  const auto found = planned.report.figures.find("rounds");
  return found == planned.report.figures.end() ? 1 : static_cast<int>(found->second);
}

std::optional<Planned> answer_of(const PlanQuestion& question) {
  AnswerWithoutRemedies answer = answer_question(question);
  if (auto* planned = std::get_if<Planned>(&answer)) return std::move(*planned);
  return std::nullopt;
}

TEST(Rounds, AreAnyPowerOfTwoOrTheMost) {
  EXPECT_EQ(round_counts(1), std::vector<int>{});
  EXPECT_EQ(round_counts(2), std::vector<int>{2});
  EXPECT_EQ(round_counts(8), (std::vector{2, 4, 8}));
  EXPECT_EQ(round_counts(11), (std::vector{2, 4, 8, 11}));
}

TEST(Rounds, AreAsManyAsComputationHides) {
  PlanQuestion question = of_many_micro_batches();
  const auto most = [&](double rate, int micro_batches) {
    question.machine.devices.front().up = question.machine.devices.front().down = {rate};
    question.micro_batches = micro_batches;
    return most_rounds_hidden(question, make_chain(question));
  };
  const int some = most(2e7, 64);
  EXPECT_GT(some, 1);
  EXPECT_LT(some, 64);
  EXPECT_NEAR(most(2e7, 128), 2 * some, 1);
  EXPECT_NEAR(most(1e7, 64), some / 2, 1);
  EXPECT_EQ(most(1e3, 64), 1);
  EXPECT_EQ(most(1e12, 64), 64);
}

// Whatever DRAM there is: what fits with one round does with the choice, no slower; and there is
// DRAM in which only rounds fit, and some in which they are faster.
TEST(Rounds, FitWhereAllInputsAtOnceDoNot) {
  PlanQuestion question = of_many_micro_batches();
  const Bytes states = states_of(question);
  int only = 0, faster = 0;
  for (const bool clips : {false, true}) {
    question.clips = clips;
    for (const int tenths : {10, 20, 30, 34, 40}) {
      SCOPED_TRACE(tenths);
      question.host_budget = Bytes{states.count * tenths / 10};
      question.options.without = pass_name::kBlocks;
      const std::optional<Planned> chosen = answer_of(question);
      question.options.without += std::string(",") + pass_name::kRounds;
      const std::optional<Planned> once = answer_of(question);
      if (chosen) expect_promises_hold(*chosen);
      if (once) {
        ASSERT_TRUE(chosen);
        EXPECT_EQ(rounds_of(*once), 1);
        EXPECT_LE(chosen->expected.count, once->expected.count * (1 + 1e-9));
        faster += chosen->expected < once->expected ? 1 : 0;
      } else if (chosen) {
        EXPECT_GT(rounds_of(*chosen), 1);
        ++only;
      }
    }
  }
  EXPECT_GT(only, 0);
  EXPECT_GT(faster, 0);
}

// Rounds that the links hold up are still rounds: once a job did not fit beside a faster device.
TEST(Rounds, NoRateDecidesWhatFits) {
  PlanQuestion question = of_many_micro_batches();
  question.micro_batches = 7;
  const Bytes states = states_of(question);
  int only = 0, refused = 0;
  for (const int percent : {120, 140, 200}) {
    SCOPED_TRACE(percent);
    question.host_budget = Bytes{states.count * percent / 100};
    std::vector<bool> fits;
    for (const double rate : {1e10, 1e7, 1e4}) {
      question.machine.devices.front().up = question.machine.devices.front().down = {rate};
      const std::optional<Planned> planned = answer_of(question);
      fits.push_back(planned.has_value());
      if (planned) expect_promises_hold(*planned);
      only += planned && rounds_of(*planned) > most_rounds_hidden(question, make_chain(question));
    }
    EXPECT_EQ(std::ranges::count(fits, fits.front()), std::ssize(fits));
    refused += fits.front() ? 0 : 1;
  }
  EXPECT_GT(only, 0);
  EXPECT_GT(refused, 0);
}

// An evaluation once had the inputs of all micro-batches in DRAM, and what trains was refused.
TEST(Rounds, AreEvaluatedInRoundsWhereDramIsShort) {
  PlanQuestion question = of_many_micro_batches();
  question.host_budget = Bytes{states_of(question).count * 2};
  int in_rounds = 0;
  for (const bool is_small : {true, false}) {
    set_device_budgets(question, Bytes{states_of(question).count / (is_small ? 4 : 2)});
    question.evaluates = false;
    ASSERT_TRUE(answer_of(question));
    question.evaluates = true;
    const std::optional<Planned> planned = answer_of(question);
    ASSERT_TRUE(planned && planned->evaluation);
    expect_promises_hold(*planned);
    const Plan& evaluation = *planned->evaluation;
    EXPECT_EQ(std::ranges::count(evaluation.values, ValueKind::loss, &Value::kind), 32);
    in_rounds += rounds_of(*planned) > 1 ? 1 : 0;
  }
  EXPECT_EQ(in_rounds, 2);
}

TEST(Rounds, MoreDeviceMemoryMakesNoStepLonger) {
  PlanQuestion question = of_many_micro_batches();
  question.micro_batches = 24;
  question.clips = false;
  const Bytes states = states_of(question);
  question.host_budget = Bytes{states.count * 5 / 2};
  std::optional<Micros> before;
  bool several = false;
  for (const int tenths : {1, 2, 4, 7}) {
    SCOPED_TRACE(tenths);
    set_device_budgets(question, Bytes{states.count * tenths / 10});
    const std::optional<Planned> planned = answer_of(question);
    if (!planned) continue;
    several = several || rounds_of(*planned) > 1;
    if (before) {
      EXPECT_LE(planned->expected.count, before->count * (1 + 1e-9));
    }
    before = planned->expected;
  }
  EXPECT_TRUE(several);
}

TEST(Rounds, WhatNeverFitsLacksWhatTheMostOfThemLack) {
  PlanQuestion question = of_many_micro_batches();
  question.host_budget = states_of(question);
  const auto need_of = [&] {
    const StrategyAnswer answer = plan_mobius(question, make_chain(question));
    const auto* const lacking = std::get_if<Shortage>(&answer);
    return lacking == nullptr ? Bytes{} : lacking->need;
  };
  const Bytes in_rounds = need_of();
  question.options.without += std::string(",") + pass_name::kRounds;
  EXPECT_GT(in_rounds, question.host_budget);
  EXPECT_LT(in_rounds, need_of());
}

// On a small device a coarse step of larger micro-batches does not fit. Its plans are large.
TEST(Rounds, EightTimesAsManyMicroBatchesTakeEightTimesAsLong) {
  PlanQuestion question = of_many_micro_batches();
  set_device_budgets(question, Bytes{states_of(question).count / 8});
  question.host_budget = Bytes{states_of(question).count * 5 / 2};
  const std::optional<Planned> few = answer_of(question);
  question.micro_batches *= 8;
  const std::optional<Planned> many = answer_of(question);
  ASSERT_TRUE(few && many);
  EXPECT_GT(many->plan.tasks.size(), 20'000u);
  EXPECT_GT(rounds_of(*many), 1);
  EXPECT_LE(many->expected.count, few->expected.count * 8 * 1.01);
}

}  // namespace
}  // namespace ferry
