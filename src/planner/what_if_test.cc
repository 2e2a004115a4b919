#include "planner/what_if.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "planner/costs/estimate.h"
#include "planner/sample_questions.h"

namespace ferry {
namespace {

TEST(WhatIf, TheFirstRowIsTheAnswerThatIsThereAndOthersArePlanned) {
  PlanQuestion question = sample_question({}, {.devices = 2}, 2);
  set_device_budgets(question, states_of(question));
  Planned now = must_fit(question);
  now.expected = from_seconds(1234);  // what no planner answers
  const std::vector<Variation> rows = what_if(question, now, plan_without_remedies, nobody());
  ASSERT_GT(rows.size(), 4U);
  EXPECT_EQ(rows[0].change, "as it is");
  EXPECT_EQ(rows[0].step, from_seconds(1234));
  const auto one_device = std::ranges::find(rows, "1 device", &Variation::change);
  ASSERT_NE(one_device, rows.end());
  PlanQuestion asked = question;
  asked.machine.devices.resize(1);
  asked.device_budgets.resize(1);
  EXPECT_EQ(one_device->step, must_fit(asked).expected);
}

// Blocks take as long as on the slowest device there is.
TEST(WhatIf, WithoutASlowDeviceBlocksTakeAsLongAsOnTheOthers) {
  PlanQuestion question = sample_question({}, {.devices = 2}, 2);
  question.strategy = "roundpipe";
  question.machine.devices[1].flops_fp32 = 1e9;
  question.profile = {};
  question = with_estimated_profile(question);
  const std::vector<Variation> rows =
      what_if(question, must_fit(question), plan_without_remedies, nobody());
  const auto one = std::ranges::find(rows, "1 device", &Variation::change);
  ASSERT_NE(one, rows.end());
  PlanQuestion asked = question;
  asked.machine.devices.resize(1);
  asked.device_budgets.resize(1);
  asked.profile = {};
  EXPECT_EQ(one->step, must_fit(asked).expected);
  EXPECT_LT(one->step, rows.front().step);
}

TEST(WhatIf, FurtherDevicesHaveNamesThatAreFree) {
  PlanQuestion question = sample_question({}, {.devices = 2}, 2);
  question.machine.devices[0].name = "gpu2";
  question.machine.devices[1].name = "gpu4";
  const std::vector<Variation> rows =
      what_if(question, must_fit(question), plan_without_remedies, nobody());
  const auto four = std::ranges::find(rows, "4 devices", &Variation::change);
  ASSERT_NE(four, rows.end());
  EXPECT_TRUE(four->fits) << four->strategy;
}

TEST(WhatIf, WhatTheJobRulesOutIsARowOfItsOwn) {
  PlanQuestion question = sample_question({}, {.devices = 2}, 2);
  question.strategy = "1f1b";
  question.options.devices = {1, 0};
  const std::vector<Variation> rows =
      what_if(question, must_fit(question), plan_without_remedies, nobody());
  const auto one = std::ranges::find(rows, "1 device", &Variation::change);
  ASSERT_NE(one, rows.end());
  EXPECT_FALSE(one->fits);
  EXPECT_EQ(one->strategy.find("plan.devices: "), 0U) << one->strategy;
  EXPECT_TRUE(std::ranges::find(rows, "4 devices", &Variation::change)->fits);
}

TEST(WhatIf, WhatDoesNotFitIsToldWithoutALookForChanges) {
  PlanQuestion question = sample_question({.layers = 6, .hidden = 64}, {}, 2);
  question.strategy = "fuyou";
  question.host_budget = question.machine.host.memory = states_of(question) * 2;
  const std::vector<Variation> rows =
      what_if(question, must_fit(question), plan_without_remedies, nobody());
  const std::string half = to_string(states_of(question)) + " of DRAM";
  const auto lacks = std::ranges::find(rows, half, &Variation::change);
  ASSERT_NE(lacks, rows.end());
  EXPECT_FALSE(lacks->fits);
  EXPECT_EQ(lacks->strategy.find("host lacks "), 0U);

  question.host_budget = states_of(question);
  const PlanAnswer answer = plan_without_remedies(question);
  EXPECT_TRUE(std::get<DoesNotFit>(answer).remedies.empty());
  EXPECT_EQ(std::get<DoesNotFit>(answer).place, "host");
}

}  // namespace
}  // namespace ferry
