#include "planner/write/stream_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "exec/simulator.h"
#include "plan/sample_plans.h"
#include "plan/verify.h"
#include "planner/costs/bounds.h"
#include "planner/costs/estimate.h"
#include "planner/sample_questions.h"
#include "planner/write/edges.h"
#include "planner/write/sample_schedules.h"

namespace ferry {
namespace {

PlanQuestion question_of(std::mt19937& random) {
  SampleModel model;
  model.tied = random() % 2 == 0;
  model.layers = 1 + static_cast<int>(random() % 4);
  SampleMachine machine;
  machine.devices = 1 + static_cast<int>(random() % 4);
  PlanQuestion question = sample_question(model, machine, 1 + static_cast<int>(random() % 4));
  for (BlockProfile& block : question.profile.blocks) block.saved = block.activation * 4;
  question.clips = random() % 2 == 0;
  question.norm_first = question.clips && random() % 2 == 0;
  for (MachineDevice& device : question.machine.devices) {
    if (random() % 4 > 0) device.p2p = {1e9};
  }
  return question;
}

/// Every mix of visits and homes; half of the blocks that can keep what forward makes.
StreamSchedule schedule_of(const PlanQuestion& question, const Chain& chain, std::mt19937& random) {
  StreamSchedule schedule;
  schedule.strategy = "mobius";
  schedule.devices = static_cast<int>(question.machine.devices.size());
  schedule.visits = random_visits(chain, schedule.devices, question.micro_batches, random);
  schedule.homes = random_homes(chain, random);
  schedule.activation_slots = kLeastActivationSlots + static_cast<int>(random() % 10);
  schedule.token_slots = 1 + static_cast<int>(random() % 2);
  schedule.spare_slots = static_cast<int>(random() % 3);
  schedule.spare_crossings = static_cast<int>(random() % 3);
  schedule.updates_as_landed = random() % 2 == 0;
  schedule.straight = random() % 2 == 0;
  schedule.again_from = static_cast<int>(random() % chain.size());
  const KeptSlots slots = kept_slots(chain, schedule);
  for (const BlockId b : chain.blocks.ids()) {
    const bool runs_again = question.norm_first && b.number() >= schedule.again_from;
    const bool may_keep = slots[b] > 0 && chain.blocks[b].saved > Bytes{} && !runs_again;
    const bool keeps = may_keep && random() % 2 == 0;
    schedule.policies.push_back(keeps ? ActivationPolicy::keep : ActivationPolicy::recompute);
  }
  return schedule;
}

TEST(StreamPlan, AnyMixOfVisitsAndHomesIsVerified) {
  for (unsigned seed = 0; seed < random_share(400); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const PlanQuestion question = question_of(random);
    const Chain chain = make_chain(question);
    Plan plan = write_stream_plan(question, chain, schedule_of(question, chain, random));
    order_accesses(plan);
    const std::optional<Violation> violation = verify(plan);
    ASSERT_FALSE(violation) << violation->message;
  }
}

// With no more memory than the plan takes, whichever backwards run again.
TEST(StreamPlan, NoneIsFasterThanItsBound) {
  int some_again = 0, near = 0;
  for (unsigned seed = 0; seed < random_share(400); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    PlanQuestion question = question_of(random);
    const Chain chain = make_chain(question);
    Plan plan = write_stream_plan(question, chain, schedule_of(question, chain, random));
    order_accesses(plan);
    Bytes most;
    for (const PlaceId p : plan.places.ids()) {
      const bool host = plan.places[p].kind == PlaceKind::host;
      (host ? question.host_budget : most) = std::max(host ? Bytes{} : most, peak_bytes(plan, p));
    }
    set_device_budgets(question, most);
    const Micros step = simulate(plan).step;
    const Micros bound = bound_of_one_way(question, chain);
    EXPECT_LE(bound, step * (1 + 1e-9));
    if (plan.again_from == 0) continue;
    ++some_again;
    near += bound > step * 0.5 ? 1 : 0;
  }
  expect_enough(some_again, 50);
  expect_enough(near, 10);
}

// What passes takes what is left of the budget, and no more.
TEST(StreamPlan, WhatFitsInTheLeastRegionFitsInALargerOne) {
  int larger = 0;
  for (unsigned seed = 0; seed < random_share(200); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    PlanQuestion question = question_of(random);
    const Chain chain = make_chain(question);
    const StreamSchedule schedule = schedule_of(question, chain, random);
    set_device_budgets(question, 1_B);
    const Plan least = write_stream_plan(question, chain, schedule);
    Bytes most;
    for (const PlaceId p : least.places.ids()) {
      if (least.places[p].kind == PlaceKind::device) most = std::max(most, peak_bytes(least, p));
    }
    set_device_budgets(question, most + Bytes{2048});
    const Plan plan = write_stream_plan(question, chain, schedule);
    for (const PlaceId p : plan.places.ids()) {
      EXPECT_LE(peak_bytes(plan, p), plan.places[p].budget) << plan.places[p].name;
      larger += peak_bytes(plan, p) > peak_bytes(least, p) ? 1 : 0;
    }
  }
  expect_enough(larger, 20);
}

// But for inputs that stay or come straight, which are known only when the plan is written, and for
// a slot that is laid out and not used.
TEST(StreamPlan, TakesOfDevicesWhatIsSeenBeforeItIsWrittenOrMore) {
  int equal = 0;
  for (unsigned seed = 0; seed < random_share(200); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    PlanQuestion question = question_of(random);
    const Chain chain = make_chain(question);
    const StreamSchedule schedule = schedule_of(question, chain, random);
    set_device_budgets(question, 1_B);
    const Plan plan = write_stream_plan(question, chain, schedule);
    const std::vector<DeviceNeed> needs = device_needs(question, chain, schedule);
    auto need = needs.begin();
    for (const PlaceId p : plan.places.ids()) {
      if (plan.places[p].kind != PlaceKind::device) continue;
      EXPECT_LE(need->least, peak_bytes(plan, p) + kSlotAlignment) << plan.places[p].name;
      EXPECT_LE(need->least, need->roomy);
      equal += need->least == peak_bytes(plan, p) ? 1 : 0;
      ++need;
    }
  }
  expect_enough(equal, 100);
}

// Their sums come down with the others; with clipping all updates wait alike.
TEST(StreamPlan, UpdatesOfSumsThatWaitInDramComeLast) {
  for (const bool clips : {false, true}) {
    PlanQuestion question = sample_question({.layers = 3}, {}, 2);
    question.clips = clips;
    const Chain chain = make_chain(question);
    StreamSchedule schedule = one_by_one(chain, question.micro_batches);
    const auto written = [&] {
      Plan plan = write_stream_plan(question, chain, schedule);
      order_accesses(plan);
      EXPECT_EQ(found_in(plan), "nothing");
      return plan;
    };
    const auto blocks_of = [](const Plan& plan, TaskKind kind) {
      std::vector<int> blocks;
      for (const Task& task : plan.tasks) {
        if (task.kind != kind) continue;
        const bool of_sum =
            kind != TaskKind::copy ||
            plan.values[plan.instances[task.writes.front()].value].kind == ValueKind::gradient;
        if (of_sum) blocks.push_back(task.block.number());
      }
      return blocks;
    };
    const Plan before = written();
    schedule.homes.resize(chain.size());
    for (const int b : {5, 2}) schedule.homes[b].sum_waits_in_dram = true;
    const Plan plan = written();
    EXPECT_EQ(blocks_of(plan, TaskKind::copy), blocks_of(before, TaskKind::copy));
    std::vector<int> expected = blocks_of(before, TaskKind::update);
    if (!clips) {
      std::erase_if(expected, [](int b) { return b == 5 || b == 2; });
      expected.insert(expected.end(), {2, 5});
    }
    EXPECT_EQ(blocks_of(plan, TaskKind::update), expected);
  }
}

// What is made and read on one device does not leave it, whatever the visits are.
TEST(StreamPlan, InputsThatStayCrossTheHostOnlyBetweenDevices) {
  const PlanQuestion question = sample_question({.layers = 3}, {.devices = 2}, 2);
  const Chain chain = make_chain(question);
  const int blocks = static_cast<int>(chain.size());
  StreamSchedule schedule;
  schedule.strategy = "mobius";
  schedule.devices = 2;
  const auto visit = [&](Direction direction, int device, int first, int end, int m) {
    schedule.visits.push_back({direction, device, first, end, m, m + 1});
  };
  for (int m = 0; m < 2; ++m) {
    visit(Direction::forward, 0, 0, 2, m);
    visit(Direction::forward, 0, 2, 4, m);  // reads on its device
    visit(Direction::forward, 1, 4, blocks, m);
  }
  for (int m = 0; m < 2; ++m) {
    visit(Direction::backward, 1, 4, blocks, m);
    visit(Direction::backward, 0, 2, 4, m);
    visit(Direction::backward, 0, 0, 2, m);
  }
  schedule.homes.resize(chain.size(), {.input_stays = true});
  Plan plan = write_stream_plan(question, chain, schedule);
  for (const Task& task : plan.tasks) {
    if (task.kind != TaskKind::copy) continue;
    const Value& moved = plan.values[plan.instances[task.reads.front()].value];
    const bool activation =
        moved.kind == ValueKind::activation || moved.kind == ValueKind::activation_gradient;
    if (activation) {
      EXPECT_EQ(moved.block, BlockId(4)) << task.name;
    }
  }
}

}  // namespace
}  // namespace ferry
