// Backwards that run twice, at first for the norm alone: what a plan has of them, what verify
// refuses, and when the search takes them.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "plan/sample_plans.h"
#include "planner/costs/question.h"
#include "planner/sample_questions.h"
#include "planner/write/edges.h"
#include "planner/write/stream_plan.h"
#include "spec/pass_names.h"
#include "spec/strategy_names.h"

namespace ferry {
namespace {

PlanQuestion small_question() { return with_norm_first(sample_question({.layers = 2}, {}, 2)); }

struct Sample {
  Sample() {
    for (ChainBlock& block : chain.blocks) {
      if (block.fused || &block == &chain.blocks.front()) continue;
      block.saved = chain.activation * 4;
      block.saved_backward = block.backward * 0.7;
    }
  }

  StreamSchedule schedule() const {
    StreamSchedule made;
    made.strategy = strategy_name::kMobius;
    const int blocks = static_cast<int>(chain.size());
    const int half = blocks / 2;
    made.visits = {{Direction::forward, 0, 0, half, 0, 2},
                   {Direction::forward, 0, half, blocks, 0, 2},
                   {Direction::backward, 0, half, blocks, 0, 2},
                   {Direction::backward, 0, 0, half, 0, 2}};
    return made;
  }

  Plan plan(const StreamSchedule& made) const {
    Plan written = write_stream_plan(question, chain, made);
    order_accesses(written);
    return written;
  }

  PlanQuestion question = small_question();
  Chain chain = make_chain(question);
};

int count_of(const Plan& plan, TaskKind kind) {
  return static_cast<int>(std::ranges::count(plan.tasks, kind, &Task::kind));
}

TEST(NormFirst, RunsBackwardsTwiceAndDropsTheFirstSums) {
  const Sample sample;
  const Plan plan = sample.plan(sample.schedule());
  EXPECT_EQ(found_in(plan), "nothing");
  const int blocks = static_cast<int>(sample.chain.size());
  EXPECT_EQ(count_of(plan, TaskKind::backward), 2 * 2 * blocks);
  EXPECT_EQ(count_of(plan, TaskKind::update), blocks);
  EXPECT_LT(task_named(plan, "B.0.1"), task_named(plan, "clip"));
  EXPECT_LT(task_named(plan, "clip"), task_named(plan, "B." + std::to_string(blocks - 1) + ".0#1"));
  // Deep blocks are updated while others go backward.
  EXPECT_LT(task_named(plan, "U." + std::to_string(blocks - 1)), task_named(plan, "B.0.1#1"));
  for (const BlockId b : plan.blocks.ids()) {
    const auto lands = [&](const Task& task) {
      if (task.kind != TaskKind::copy || task.block != b) return false;
      const Instance& to = plan.instances[task.writes.front()];
      return plan.values[to.value].kind == ValueKind::gradient &&
             plan.places[to.place].kind == PlaceKind::host;
    };
    EXPECT_EQ(std::ranges::count_if(plan.tasks, lands), 1) << b.number();
  }
}

TEST(NormFirst, IsReadBackAndOthersDoNotMentionIt) {
  const Sample sample;
  const Plan plan = sample.plan(sample.schedule());
  const std::string text = to_text(plan);
  EXPECT_NE(text.find(" clips norm_first\n"), std::string::npos);
  EXPECT_EQ(to_text(parse_plan(text, "sample")), text);
  Sample waits;
  waits.question.norm_first = false;
  EXPECT_EQ(to_text(waits.plan(waits.schedule())).find("norm_first"), std::string::npos);
}

// The first blocks' sums wait for the norm; only the backwards of the others run again.
TEST(NormFirst, RunsNoBackwardAgainWhoseSumWaits) {
  const Sample sample;
  const int blocks = static_cast<int>(sample.chain.size());
  for (int from = 1; from < blocks; ++from) {
    SCOPED_TRACE(from);
    StreamSchedule schedule = sample.schedule();
    schedule.again_from = from;
    const Plan plan = sample.plan(schedule);
    EXPECT_EQ(found_in(plan), "nothing");
    EXPECT_EQ(plan.again_from, from);
    EXPECT_EQ(count_of(plan, TaskKind::backward), 2 * (2 * blocks - from));
    EXPECT_EQ(count_of(plan, TaskKind::update), blocks);
    // Their updates need not wait for what runs again.
    EXPECT_LT(task_named(plan, "clip"), task_named(plan, "U.0"));
    EXPECT_LT(task_named(plan, "U.0"), task_named(plan, "B." + std::to_string(from) + ".1#1"));
    const std::string text = to_text(plan);
    EXPECT_NE(text.find(" clips norm_first again_from=" + std::to_string(from) + "\n"),
              std::string::npos);
    EXPECT_EQ(to_text(parse_plan(text, "sample")), text);
  }
}

// What they keep of forward serves the one backward that there is.
TEST(NormFirst, BlocksWhoseSumsWaitMayKeepWhatForwardMade) {
  const Sample sample;
  StreamSchedule schedule = sample.schedule();
  schedule.again_from = 3;
  schedule.policies = keep_all(sample.chain, kept_slots(sample.chain, schedule));
  EXPECT_EQ(found_in(sample.plan(schedule)),
            "0: value K.3.0 serves one backward, and with norm_first there are two");
  for (const BlockId b : schedule.policies.ids()) {
    if (b.number() >= schedule.again_from) schedule.policies[b] = ActivationPolicy::recompute;
  }
  EXPECT_TRUE(saves_any(schedule.policies));
  EXPECT_EQ(found_in(sample.plan(schedule)), "nothing");
}

TEST(NormFirst, VerifyNamesWhatIsWrongWithIt) {
  const Sample sample;
  const Plan good = sample.plan(sample.schedule());
  const auto with = [&](const std::function<void(Plan&)>& change) {
    Plan plan = good;
    change(plan);
    return found_in(plan);
  };
  EXPECT_EQ(with([](Plan& plan) { plan.norm_first = false; }),
            "5: backward of block 0 for micro-batch 0 runs 2 times per step, not 1");
  EXPECT_EQ(with([](Plan& plan) { plan.clips = false; }),
            "0: norm_first is of a training step that clips");
  EXPECT_EQ(with([](Plan& plan) { plan.again_from = 1; }),
            "5: backward of block 0 for micro-batch 0 runs 2 times per step, not 1");
  EXPECT_EQ(with([](Plan& plan) { plan.again_from = static_cast<int>(plan.blocks.size()); }),
            "0: again_from=" + std::to_string(good.blocks.size()) +
                " is no block of a step with norm_first");
  Sample once;
  once.question.norm_first = false;
  Plan plan = once.plan(once.schedule());
  plan.norm_first = true;
  EXPECT_EQ(found_in(plan),
            "5: backward of block 0 for micro-batch 0 runs 1 times per step, not 2");
  // What forward keeps is gone with the first.
  StreamSchedule keeps = once.schedule();
  keeps.policies = keep_all(once.chain, kept_slots(once.chain, keeps));
  plan = once.plan(keeps);
  EXPECT_EQ(found_in(plan), "nothing");
  plan.norm_first = true;
  EXPECT_EQ(found_in(plan),
            "0: value K.1.0 serves one backward, and with norm_first there are two");
}

// DRAM for all but the sums, and a slow drive.
PlanQuestion question_short_of_dram(const SampleModel& model = {.layers = 6},
                                    int micro_batches = 2) {
  PlanQuestion question = sample_question(model, {}, micro_batches);
  use_round_costs(question);
  question.options.without.clear();
  question.strategy = strategy_name::kMobius;
  Bytes states;
  for (const ChainBlock& block : make_chain(question).blocks) {
    states += block.weights + block.states;
  }
  set_device_budgets(question, Bytes{states.count / 3});
  question.host_budget = states;
  question.machine.drives = {{.name = "ssd0", .capacity = 1_GiB}};
  question.machine.drives.front().read = question.machine.drives.front().write = {1e6};
  return question;
}

TEST(NormFirst, IsTakenWhereSumsHaveNoRoomToWait) {
  PlanQuestion question = question_short_of_dram();
  const Planned twice = must_fit(question);
  EXPECT_TRUE(twice.plan.norm_first);
  question.options.without = pass_name::kNormFirst;
  const Planned waiting = must_fit(question);
  EXPECT_FALSE(waiting.plan.norm_first);
  EXPECT_LT(twice.expected, waiting.expected * 0.9);
  EXPECT_LE(twice.lower_bound, twice.expected);
  question.clips = false;
  question.options.without.clear();
  EXPECT_FALSE(must_fit(question).plan.norm_first);
}

// Without drives: the more sums have room, the fewer backwards run again and the shorter the step.
TEST(NormFirst, RunsFewerBackwardsAgainWhereMoreSumsHaveRoomToWait) {
  PlanQuestion question = question_short_of_dram();
  question.machine.drives.clear();
  Bytes sums;
  for (const ChainBlock& block : make_chain(question).blocks) sums += landing_sum(block);
  const Bytes states = question.host_budget;
  Micros before = from_seconds(1);
  int some = 0;
  for (const double share : {0.7, 0.8, 1.0, 1.3}) {
    SCOPED_TRACE(share);
    question.host_budget = states + Bytes{static_cast<std::int64_t>(as_double(sums) * share)};
    const Planned planned = must_fit(question);
    EXPECT_LE(planned.lower_bound, planned.expected);
    EXPECT_LT(planned.expected, before);
    before = planned.expected;
    some += planned.plan.norm_first && planned.plan.again_from > 0 ? 1 : 0;
  }
  EXPECT_GE(some, 2);
}

// A fused head runs forward in either of its backwards; evaluation once had it twice.
TEST(NormFirst, IsEvaluatedBeside) {
  for (const bool tied : {false, true}) {
    for (const int micro_batches : {1, 2}) {
      SCOPED_TRACE(std::to_string(micro_batches) + (tied ? ", tied" : ""));
      PlanQuestion question = question_short_of_dram({.tied = tied, .layers = 6}, micro_batches);
      question.evaluates = true;
      question.options.without = pass_name::kBlocks;
      const Planned planned = must_fit(question);
      EXPECT_TRUE(planned.plan.norm_first);
      ASSERT_TRUE(planned.evaluation);
      EXPECT_EQ(found_in(*planned.evaluation), "nothing");
      EXPECT_EQ(count_of(*planned.evaluation, TaskKind::forward),
                micro_batches * static_cast<int>(planned.plan.blocks.size()));
    }
  }
}

TEST(NormFirst, IsNotTakenWhereDramHasRoom) {
  PlanQuestion question = question_short_of_dram();
  question.host_budget = 1_GiB;
  EXPECT_FALSE(must_fit(question).plan.norm_first);
}

}  // namespace
}  // namespace ferry
