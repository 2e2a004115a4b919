// Simulated devices and the host divide one memory: no plan takes more than there is of it.
#include "planner/split_memory.h"

#include <gtest/gtest.h>

#include "planner/planner.h"
#include "planner/sample_questions.h"

namespace ferry {
namespace {

/// A box of so much memory, which every place may have as far as its own limit goes.
PlanQuestion on_box(PlanQuestion question, Bytes memory) {
  question.machine.host.memory = question.host_budget = memory;
  for (MachineDevice& device : question.machine.devices) device.memory = memory;
  question.device_budgets.clear();
  question.machine.source.text = question.host_budget_source = "this machine";
  question.shared = SharedMemory{memory, "this machine: all of it"};
  return question;
}

PlanQuestion sample(int devices, int layers = 4) {
  return sample_question({.layers = layers, .vocab = 256}, {.devices = devices}, 4);
}

Bytes sum_of_budgets(const Plan& plan) {
  Bytes sum;
  for (const Place& place : plan.places) sum += place.budget;
  return sum;
}

TEST(SplitMemory, WithoutItThePlacesTogetherTakeMoreThanThereIs) {
  PlanQuestion question = on_box(sample(1), {states_of(sample(1)).count * 7 / 4});
  question.strategy = "mobius";
  const Bytes memory = question.shared->bytes;
  question.shared.reset();
  EXPECT_GT(sum_of_budgets(must_fit(question).plan), memory);
}

struct Case {
  int devices;
  const char* strategy;
};

TEST(SplitMemory, NoPlanTakesMoreThanThereIsWhateverTheSplit) {
  for (const Case& one : {Case{1, "resident"}, Case{1, "mobius"}, Case{2, "harmony-dp"}}) {
    const PlanQuestion asked = sample(one.devices, 2);
    int fitting = 0;
    for (const int percent : {90, 160, 220, 400, 1600}) {
      SCOPED_TRACE(std::string(one.strategy) + " " + std::to_string(percent) + " %");
      PlanQuestion question = on_box(asked, {states_of(asked).count * percent / 100});
      question.strategy = one.strategy;
      question.evaluates = percent != 220;
      const PlanAnswer answer = make_plan(question);
      if (const auto* no = std::get_if<DoesNotFit>(&answer)) {
        EXPECT_EQ(fitting, 0) << "less memory was enough";
        EXPECT_GT(no->need, no->have);
        continue;
      }
      ++fitting;
      const Planned& planned = std::get<Planned>(answer);
      expect_promises_hold(planned);
      EXPECT_LE(sum_of_budgets(planned.plan), question.shared->bytes);
      for (const PlaceId id : planned.plan.places.ids()) {
        EXPECT_LE(peak_bytes(planned, id), planned.plan.places[id].budget);
      }
    }
    EXPECT_GE(fitting, 2);
  }
}

TEST(SplitMemory, WhatFitsNowhereIsToldForAllPlacesWithARemedyThatFits) {
  PlanQuestion question = on_box(sample(1), {states_of(sample(1)).count * 105 / 100});
  question.strategy = "mobius";
  question.device_budgets = {{question.shared->bytes - 1_B, "budget.device, job.yaml:9"}};
  const PlanAnswer answer = make_plan(question);
  const auto& no = std::get<DoesNotFit>(answer);
  EXPECT_EQ(no.place, "gpu0 + host");
  EXPECT_GT(no.need, no.have);
  EXPECT_EQ(no.limit_source, "this machine: all of it; budget.device, job.yaml:9");
  ASSERT_FALSE(no.remedies.empty());
  bool more = false;
  for (const Remedy& remedy : no.remedies) {
    more = more || remedy.change.ends_with(" MiB more memory for ferry");
  }
  EXPECT_TRUE(more);
}

// A control group that is smaller than ferry itself.
TEST(SplitMemory, WhereNoMemoryIsLeftTheLackIsTold) {
  const PlanAnswer answer = make_plan(on_box(sample(1), 0_B));
  const auto& no = std::get<DoesNotFit>(answer);
  EXPECT_GT(no.need, no.have);
  EXPECT_EQ(no.have, 0_B);
}

TEST(SplitMemory, ABudgetOfTheJobHoldsAndTheHostHasTheRest) {
  PlanQuestion question = on_box(sample(1, 2), states_of(sample(1, 2)) * 4 + 1_MiB);
  question.strategy = "mobius";
  const Bytes asked = 512_KiB;
  question.device_budgets = {{asked, "budget.device, job.yaml:9"}};
  const Plan plan = must_fit(question).plan;
  EXPECT_EQ(plan.places.front().budget, asked);
  EXPECT_EQ(sum_of_budgets(plan), question.shared->bytes);
}

}  // namespace
}  // namespace ferry
