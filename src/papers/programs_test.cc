// What holds for every strategy's pure program alike.
#include <gtest/gtest.h>

#include <random>

#include "papers/papers.h"
#include "papers/timing/program_questions.h"
#include "plan/plan.h"
#include "planner/sample_questions.h"

namespace ferry {
namespace {

constexpr const char* kPrograms[] = {"mobius", "roundpipe",   "zero",      "gpipe",
                                     "1f1b",   "interleaved", "async-1f1b"};

// Unequal blocks, with bytes.
PlanQuestion random_program(const std::string& strategy, std::mt19937_64& random) {
  const int devices = 1 + static_cast<int>(random() % 4);
  Profile profile = equal_profile(4 * devices + static_cast<int>(random() % 5), 10, 30);
  profile.blocks.clear();
  for (std::size_t b = 0; b < profile.chain.size(); ++b) {
    BlockProfile block;
    block.key = "block" + std::to_string(b);
    block.forward = {1 + static_cast<double>(random() % 40)};
    block.backward = block.forward * 3;
    block.weights = block.gradients = Bytes{static_cast<std::int64_t>(random() % 60)};
    block.activation = block.activation_gradient = Bytes{static_cast<std::int64_t>(random() % 9)};
    profile.blocks.push_back(block);
    profile.chain[b] = static_cast<int>(b);
  }
  const int groups = 1 + static_cast<int>(random() % 3);
  PlanQuestion question = pure_question(strategy, devices, groups * devices, profile);
  question.papers.flush = random() % 2 == 0;
  question.options.chunks = 1 + static_cast<int>(random() % 2);
  return question;
}

TEST(Programs, EveryPlanIsAFileThatReadsBack) {
  for (const char* strategy : kPrograms) {
    std::mt19937_64 random(4);
    const Plan plan = must_fit(random_program(strategy, random), papers::answer).plan;
    const std::string text = to_text(plan);
    EXPECT_EQ(to_text(parse_plan(text, strategy)), text) << strategy;
  }
}

TEST(Programs, ThePlanSaysWhatWasAsked) {
  for (const char* strategy : kPrograms) {
    std::mt19937_64 random(5);
    PlanQuestion question = random_program(strategy, random);
    for (const Precision precision : {Precision::bf16, Precision::fp32}) {
      question.precision = precision;
      EXPECT_EQ(must_fit(question, papers::answer).plan.precision, precision) << strategy;
    }
  }
}

TEST(Programs, NoneIsFasterThanItsLowerBound) {
  std::mt19937_64 random(9);
  for (const char* strategy : kPrograms) {
    for (int round = 0; round < 12; ++round) {
      const Planned planned = must_fit(random_program(strategy, random), papers::answer);
      EXPECT_GE(planned.prediction.step.count, planned.lower_bound.count * (1 - 1e-9)) << strategy;
      EXPECT_GE(planned.report.figures.at("bubble"), -1e-9) << strategy;
      EXPECT_EQ(planned.plan.strategy, strategy);
      EXPECT_FALSE(planned.report.stages.empty());
      EXPECT_FALSE(planned.report.mapping.empty());
    }
  }
}

TEST(Programs, EqualQuestionsGiveEqualPlans) {
  for (const char* strategy : kPrograms) {
    std::mt19937_64 random(6);
    const PlanQuestion question = random_program(strategy, random);
    EXPECT_EQ(to_text(must_fit(question, papers::answer).plan),
              to_text(must_fit(question, papers::answer).plan))
        << strategy;
  }
}

}  // namespace
}  // namespace ferry
