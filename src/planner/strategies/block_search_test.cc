#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "planner/sample_questions.h"

namespace ferry {
namespace {

/// On slow links; the devices have room for a part of the states.
PlanQuestion question_of(int devices, double part) {
  PlanQuestion question = sample_question({.layers = 6, .hidden = 64},
                                          {.devices = devices, .roots = 1, .link_rate = 20e6}, 4);
  question.strategy = "mobius";
  const double bytes = static_cast<double>(states_of(question).count) * part / devices;
  set_device_budgets(question, Bytes{static_cast<std::int64_t>(bytes)} + 1_MiB);
  return question;
}

TEST(BlockSearch, MakesNoStepLongerAndSomeShorter) {
  int shorter = 0;
  for (const int devices : {1, 2, 3}) {
    for (const double part : {0.3, 0.6}) {
      SCOPED_TRACE(std::to_string(devices) + " devices, " + std::to_string(part));
      PlanQuestion question = question_of(devices, part);
      const Planned before = must_fit(question);
      question.options.without.clear();
      const Planned after = must_fit(question);
      EXPECT_LE(after.expected, before.expected);
      expect_promises_hold(after);
      if (after.expected < before.expected * 0.99) ++shorter;
    }
  }
  EXPECT_GE(shorter, 3);
}

// The climb tries 6 and 6.5 MiB.
TEST(BlockSearch, FillsWhatIsLeftBetweenTwoRungs) {
  PlanQuestion question = question_of(1, 0.5);
  question.micro_batches = 2;
  question.options.without.clear();
  std::vector<Micros> steps;
  for (const int eighths : {48, 49, 52}) {
    set_device_budgets(question, Bytes{(1_MiB).count * eighths / 8});
    steps.push_back(must_fit(question).expected);
  }
  EXPECT_TRUE(std::ranges::is_sorted(steps, std::ranges::greater()));
  EXPECT_LT(steps[1], steps[0]);
}

// Its threads change nothing: what is tried side by side is chosen by its order.
TEST(BlockSearch, EqualQuestionsHaveEqualPlans) {
  PlanQuestion question = question_of(2, 0.5);
  question.options.without.clear();
  EXPECT_EQ(to_text(must_fit(question).plan), to_text(must_fit(question).plan));
}

}  // namespace
}  // namespace ferry
