#include "planner/write/host_slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "plan/sample_plans.h"
#include "planner/sample_questions.h"
#include "planner/strategies/homes.h"
#include "planner/write/edges.h"
#include "planner/write/sample_schedules.h"
#include "planner/write/stream_plan.h"

namespace ferry {
namespace {

Plan write_with(Bytes dram, PlanQuestion question, const Chain& chain,
                const StreamSchedule& schedule) {
  question.host_budget = dram;
  return write_stream_plan(question, chain, schedule);
}

void expect_verified(Plan plan) {
  order_accesses(plan);
  EXPECT_EQ(found_in(plan), "nothing");
}

/// Of the slots of such values in DRAM.
Bytes bytes_on_host(const Plan& plan, std::initializer_list<ValueKind> kinds) {
  Bytes bytes;
  for (const Instance& instance : plan.instances) {
    const Value& held = plan.values[instance.value];
    if (plan.places[instance.place].kind != PlaceKind::host) continue;
    if (std::ranges::find(kinds, held.kind) != kinds.end()) bytes += round_up(held.bytes, 512_B);
  }
  return bytes;
}

TEST(HostSlots, SumsLieWhereInputsWereWhereDramIsShort) {
  const PlanQuestion question = sample_question({.layers = 4}, {}, 4);
  const Chain chain = make_chain(question);
  const StreamSchedule schedule = one_by_one(chain, question.micro_batches);
  const Plan roomy = write_with(1_GiB, question, chain, schedule);
  const Bytes sums = bytes_on_host(roomy, {ValueKind::gradient});
  const Bytes inputs = bytes_on_host(roomy, {ValueKind::activation});
  const Bytes apart = host_peak(roomy);
  const Bytes least = host_peak(write_as_in_short_dram(question, chain, schedule));
  EXPECT_EQ(apart - least, std::min(sums, inputs));
  for (const Bytes dram : {least, Bytes{(least + apart).count / 2}, apart - 1_B, apart}) {
    const Plan plan = write_with(dram, question, chain, schedule);
    EXPECT_LE(host_peak(plan), dram);
    EXPECT_GT(host_peak(plan), dram - 1_KiB);  // no more is shared than has to be
    expect_verified(plan);
  }
}

// With a whole block's sum kept until the end of the step, the next step's first inputs wait for
// the first updates only.
TEST(HostSlots, WhatIsUsedFirstLiesBelow) {
  const PlanQuestion question = sample_question({.layers = 4}, {}, 4);
  const Chain chain = make_chain(question);
  const Plan tight =
      write_as_in_short_dram(question, chain, one_by_one(chain, question.micro_batches));
  Bytes above;
  for (const Task& task : tight.tasks) {
    if (task.kind != TaskKind::update) continue;
    const auto sum = std::ranges::find_if(task.reads, [&](InstanceId id) {
      return tight.values[tight.instances[id].value].kind == ValueKind::gradient;
    });
    EXPECT_GT(tight.instances[*sum].offset, above);
    above = tight.instances[*sum].offset;
  }
}

TEST(HostSlots, RoundsHaveInputsOfOneOfThemAtOnce) {
  PlanQuestion question = sample_question({.layers = 4}, {}, 6);
  question.rounds = 3;
  const Chain chain = make_chain(question);
  const StreamSchedule all = one_by_one(chain, question.micro_batches);
  StreamSchedule schedule = all;
  schedule.visits.clear();
  for (int first = 0; first < question.micro_batches; first += 2) {
    for (StageVisit visit : all.visits) {
      visit.first_batch = first;
      visit.end_batch = first + 2;
      schedule.visits.push_back(visit);
    }
  }
  const Plan plan = write_with(1_GiB, question, chain, schedule);
  expect_verified(plan);
  const Bytes inputs = bytes_on_host(plan, {ValueKind::activation});
  question.rounds = 1;
  const Plan apart = write_with(1_GiB, question, chain, schedule);
  expect_verified(apart);
  EXPECT_GE(host_peak(apart) - host_peak(plan), Bytes{inputs.count * 2 / 3});
}

TEST(HostSlots, AnyMixOfVisitsAndHomesIsVerifiedAndTakesNoMore) {
  int less = 0;
  int in_rounds = 0;
  for (unsigned seed = 0; seed < random_share(200); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    SampleModel model{.tied = random() % 2 == 0, .layers = 1 + static_cast<int>(random() % 4)};
    SampleMachine machine{.devices = 1 + static_cast<int>(random() % 3)};
    PlanQuestion question = sample_question(model, machine, 1 + static_cast<int>(random() % 4));
    question.clips = random() % 2 == 0;
    question.norm_first = question.clips && random() % 2 == 0;
    const Chain chain = make_chain(question);
    StreamSchedule schedule;
    schedule.strategy = "mobius";
    schedule.devices = machine.devices;
    schedule.visits = random_visits(chain, machine.devices, question.micro_batches, random);
    const int round = schedule.visits.front().end_batch;
    if (!question.norm_first && question.micro_batches % round == 0) {
      question.rounds = question.micro_batches / round;
      in_rounds += question.rounds > 1 ? 1 : 0;
    }
    schedule.homes = random_homes(chain, random);
    schedule.spare_crossings = static_cast<int>(random() % 3);
    schedule.updates_as_landed = random() % 2 == 0;
    schedule.updates_ahead = static_cast<int>(random() % (chain.size() + 1));
    schedule.again_from = static_cast<int>(random() % chain.size());
    const Bytes apart = host_peak(write_with(1_GiB, question, chain, schedule));
    const Plan shared = write_as_in_short_dram(question, chain, schedule);
    expect_verified(shared);
    EXPECT_LE(host_peak(shared), apart);
    less += host_peak(shared) < apart ? 1 : 0;
  }
  expect_enough(less, 100);
  expect_enough(in_rounds, 20);
}

}  // namespace
}  // namespace ferry
