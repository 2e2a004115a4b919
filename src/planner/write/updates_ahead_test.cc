// Updates ahead of the step's norm: what a plan has of them, what verify refuses, and when the
// search takes them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plan/sample_plans.h"
#include "planner/costs/question.h"
#include "planner/sample_questions.h"
#include "planner/write/edges.h"
#include "planner/write/stream_plan.h"

namespace ferry {
namespace {

struct Sample {
  Sample() { question.clips = true; }

  StreamSchedule schedule(int ahead) const {
    StreamSchedule made;
    made.strategy = "mobius";
    const int blocks = static_cast<int>(chain.size());
    made.visits = {{Direction::forward, 0, 0, blocks, 0, 2},
                   {Direction::backward, 0, 0, blocks, 0, 2}};
    made.updates_ahead = ahead;
    return made;
  }

  Plan plan(const StreamSchedule& made) const {
    Plan written = write_stream_plan(question, chain, made);
    order_accesses(written);
    return written;
  }

  PlanQuestion question = sample_question({.layers = 2}, {}, 2);
  Chain chain = make_chain(question);
};

std::vector<int> blocks_of(const Plan& plan, TaskKind kind) {
  std::vector<int> blocks;
  for (const Task& task : plan.tasks) {
    if (task.kind == kind) blocks.push_back(task.block.number());
  }
  return blocks;
}

TEST(UpdatesAhead, AreOfTheBlocksWhoseSumsLandFirst) {
  const Sample sample;
  const Plan plan = sample.plan(sample.schedule(2));
  EXPECT_EQ(found_in(plan), "nothing");
  const int last = static_cast<int>(sample.chain.size()) - 1;
  const std::vector<int> updates = blocks_of(plan, TaskKind::update);
  ASSERT_EQ(updates.size(), sample.chain.size());
  EXPECT_EQ(updates[0], last);
  EXPECT_EQ(updates[1], last - 1);
  EXPECT_LT(task_named(plan, "U." + std::to_string(last - 1)), task_named(plan, "clip"));
  EXPECT_LT(task_named(plan, "clip"), task_named(plan, "U.0"));
  EXPECT_EQ(blocks_of(plan, TaskKind::redo), (std::vector<int>{last - 1, last}));
}

TEST(UpdatesAhead, TakeRoomForWhatTheyFind) {
  const Sample sample;
  Bytes found;
  for (const Value& value : sample.plan(sample.schedule(2)).values) {
    if (value.kind == ValueKind::original) found += value.bytes;
  }
  const auto& blocks = sample.chain.blocks;
  const auto at_rest = [](const ChainBlock& block) { return block.weights + block.states; };
  EXPECT_EQ(found, at_rest(blocks.back()) + at_rest(blocks[BlockId(blocks.size() - 2)]));
}

TEST(UpdatesAhead, AreNotOfWhatRestsElsewhereOrOfAStepThatIsNotClipped) {
  Sample sample;
  StreamSchedule schedule = sample.schedule(static_cast<int>(sample.chain.size()));
  schedule.homes.resize(sample.chain.size());
  schedule.homes.back() = kAllOnDevice;
  schedule.homes[1].sum_waits = true;
  std::vector<int> redone = blocks_of(sample.plan(schedule), TaskKind::redo);
  EXPECT_EQ(redone.size(), sample.chain.size() - 2);
  EXPECT_EQ(std::ranges::count(redone, 1), 0);
  sample.question.clips = false;
  EXPECT_TRUE(blocks_of(sample.plan(schedule), TaskKind::redo).empty());
}

TEST(UpdatesAhead, AClippedStepUpdatesTwice) {
  const Sample sample;
  const Plan plan = sample.plan(sample.schedule(1));
  const Plan again = clipped(plan);
  const std::string last = std::to_string(sample.chain.size() - 1);
  const Task &update = plan.tasks[task_named(plan, "U." + last)],
             &redo = plan.tasks[task_named(plan, "redo." + last)];
  EXPECT_GT(update.micros, sample.chain.blocks.back().host_update);
  EXPECT_EQ(redo.micros, Micros{});
  EXPECT_EQ(again.tasks[task_named(plan, "redo." + last)].micros, update.micros);
}

// Each: what is changed in a plan that is right, and what verify says then.
TEST(UpdatesAhead, VerifyNamesWhatIsWrongWithThem) {
  const Sample sample;
  const Plan right = sample.plan(sample.schedule(1));
  const std::string last = std::to_string(sample.chain.size() - 1);
  const std::string redo = "redo." + last;
  const auto said = [&](const std::function<void(Plan&)>& change) {
    Plan plan = right;
    change(plan);
    return found_in(plan);
  };
  const auto drop = [&](Plan& plan, const std::string& name) {
    const TaskId gone = task_named(plan, name);
    for (Task& task : plan.tasks) {
      for (auto* edges : {&task.after, &task.after_previous}) {
        erase(*edges, gone);
        for (TaskId& id : *edges) id = id > gone ? TaskId(id.number() - 1) : id;
      }
    }
    plan.tasks.erase(plan.tasks.begin() + gone.number());
  };
  EXPECT_EQ(said([&](Plan& plan) { drop(plan, redo); }),
            "5: redo of block " + last + " runs 0 times per step, not 1");
  const auto as_update = [&](Plan& plan) {
    plan.tasks[task_named(plan, redo)].kind = TaskKind::update;
  };
  EXPECT_NE(said(as_update).find("may not read"), std::string::npos);
  EXPECT_NE(said([](Plan& plan) { plan.clips = false; }).find("is of no block whose update waits"),
            std::string::npos);
  // The next step's weights leave for the device when the update is done, not the redo.
  const auto early = said([&](Plan& plan) {
    const std::string upload = "W." + last + ">gpu0";
    Task again = plan.tasks[task_named(plan, upload)];
    drop(plan, upload);
    again.after = {task_named(plan, "U." + last)};
    again.after_previous.clear();
    plan.instances[again.writes.front()].home = true;
    const TaskId id = plan.tasks.add(again);
    const TaskId settled = task_named(plan, redo);
    plan.tasks[settled].after.push_back(id);
    plan.tasks[task_named(plan, "G." + last + ">host")].after_previous.push_back(settled);
    for (Task& task : plan.tasks) {
      if (std::ranges::count(task.reads, again.writes.front()) > 0) {
        task.after_previous.push_back(id);
      }
    }
  });
  EXPECT_EQ(early.front(), '6') << early;
  EXPECT_NE(early.find("which 'redo' may yet take back"), std::string::npos) << early;
  const std::string text = to_text(right);
  EXPECT_EQ(to_text(parse_plan(text, "a.plan")), text);
}

StreamSchedule with_renewals(const Sample& sample) {
  StreamSchedule schedule = sample.schedule(0);
  schedule.homes.assign(sample.chain.size(), {.weight_stays = true, .renews_at_once = true});
  return schedule;
}

TEST(UpdatesAhead, BringWeightsUpAheadOfTheNormAndAgainWhereTheStepIsClipped) {
  const Sample sample;
  const Plan plan = sample.plan(with_renewals(sample));
  EXPECT_EQ(found_in(plan), "nothing");
  const std::string last = "W." + std::to_string(sample.chain.size() - 1);
  const Task &again = plan.tasks[task_named(plan, last + ">gpu0")],
             &ahead = plan.tasks[task_named(plan, last + ">gpu0#1")];
  EXPECT_TRUE(again.refreshes);
  EXPECT_EQ(full_speed_time(plan, again), Micros{});
  EXPECT_GT(full_speed_time(clipped(plan), clipped(plan).tasks[task_named(plan, again.name)]),
            Micros{});
  EXPECT_FALSE(ahead.refreshes);
  EXPECT_EQ(plan.resources[ahead.resource].name, "gpu0.renewals_up");
  EXPECT_LT(task_named(plan, ahead.name), task_named(plan, "clip"));
  const std::string text = to_text(plan);
  EXPECT_EQ(to_text(parse_plan(text, "a.plan")), text);
}

TEST(UpdatesAhead, VerifyNamesWhatMayNotBeLeftToARefresh) {
  const Sample sample;
  Plan plan = sample.plan(sample.schedule(1));
  const std::string last = "W." + std::to_string(sample.chain.size() - 1) + ">gpu0";
  plan.tasks[task_named(plan, last)].refreshes = true;  // W does not come up ahead
  EXPECT_EQ(found_in(plan).substr(0, 3 + last.size() + 12), "2: '" + last + "' of step 1");
  EXPECT_NE(found_in(plan).find(" refreshes W."), std::string::npos) << found_in(plan);
  plan = sample.plan(sample.schedule(1));
  plan.tasks[task_named(plan, "W.0>gpu0")].refreshes = true;  // is not updated ahead
  EXPECT_EQ(found_in(plan),
            "0: task 'W.0>gpu0' refreshes; expected a copy of weights that are updated ahead");
}

// A fast device beside a host that updates slowly: what it does during backward costs nothing.
TEST(UpdatesAhead, AreTakenWhereFewStepsAreClipped) {
  PlanQuestion question = sample_question({.layers = 4}, {}, 4);
  question.clips = true;
  question.strategy = "mobius";
  question.options.without = "homes";
  question.machine.devices.front().kind = DeviceKind::cuda;  // computes on no core of the host
  use_round_costs(question);
  question.profile.update_rate *= 0.1;
  const auto planned_for = [&](double clipped) {
    question.options.clipped = clipped;
    return must_fit(question);
  };
  const Planned never = planned_for(0), always = planned_for(1);
  EXPECT_GT(blocks_of(never.plan, TaskKind::redo).size(), 0u);
  EXPECT_GT(never.clipped_step, never.prediction.step);
  EXPECT_EQ(never.expected, never.prediction.step);
  EXPECT_LT(never.expected, always.expected);
  EXPECT_TRUE(blocks_of(always.plan, TaskKind::redo).empty());
  EXPECT_EQ(always.expected, always.prediction.step);
  const Planned some = planned_for(0.1);
  EXPECT_LE(some.expected, always.expected);
  EXPECT_GE(some.expected, never.expected);
}

// All weights go up in 100 ms of a step that computes for 176; the device holds them, and little of
// the states.
TEST(UpdatesAhead, WeightsComeUpAtOnceWhereTheWayUpBindsAndFewStepsAreClipped) {
  PlanQuestion question = sample_question({.layers = 4}, {.link_rate = 1}, 4);
  const double weights = static_cast<double>(states_of(question).count) / 3;
  question = sample_question({.layers = 4}, {.link_rate = weights / 0.1}, 4);
  question.clips = true;
  question.strategy = "mobius";
  question.machine.devices.front().kind = DeviceKind::cuda;  // computes on no core of the host
  use_round_costs(question);
  set_device_budgets(question, Bytes{static_cast<std::int64_t>(1.5 * weights)});
  const auto planned_for = [&](double clipped) {
    question.options.clipped = clipped;
    return must_fit(question);
  };
  const auto refreshed = [](const Planned& planned) {
    std::vector<int> blocks;
    for (const Task& task : planned.plan.tasks) {
      if (task.refreshes) blocks.push_back(task.block.number());
    }
    std::ranges::sort(blocks);
    return blocks;
  };
  const Planned rarely = planned_for(0.1), always = planned_for(1);
  expect_promises_hold(rarely);
  EXPECT_FALSE(refreshed(rarely).empty());
  EXPECT_EQ(refreshed(rarely), blocks_of(rarely.plan, TaskKind::redo));
  EXPECT_GT(rarely.clipped_step, rarely.prediction.step);
  EXPECT_LT(rarely.expected, always.expected);
  EXPECT_TRUE(refreshed(always).empty());
  question.clips = false;
  const Planned unclipped = planned_for(0);
  expect_promises_hold(unclipped);
  EXPECT_FALSE(refreshed(unclipped).empty());
  EXPECT_LT(unclipped.expected, rarely.expected);
}

}  // namespace
}  // namespace ferry
