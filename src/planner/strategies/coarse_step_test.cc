#include "planner/strategies/coarse_step.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "exec/simulator.h"
#include "plan/verify.h"
#include "planner/answer.h"
#include "planner/sample_questions.h"
#include "planner/strategies/mobius.h"
#include "planner/write/edges.h"
#include "planner/write/stream_plan.h"

namespace ferry {
namespace {

PlanQuestion of_micro_batches(int count) {
  PlanQuestion question = sample_question({.layers = 6, .hidden = 64}, {}, 2);
  question.micro_batches = count;
  return question;
}

using RoundsAndMicroBatches = std::vector<std::pair<int, int>>;

// Of the coarse steps of one whose plan has so many tasks, where 8,000 can be searched.
RoundsAndMicroBatches coarse_steps_of(const PlanQuestion& question, std::ptrdiff_t tasks) {
  RoundsAndMicroBatches found;
  for (const CoarseStep& step : coarse_steps(question, make_chain(question), tasks, 8'000)) {
    found.emplace_back(step.question.rounds, step.question.micro_batches);
  }
  return found;
}

TEST(CoarseStep, HasSoManyMicroBatchesThatItsPlanIsSearched) {
  using Steps = RoundsAndMicroBatches;
  const PlanQuestion question = of_micro_batches(32);
  EXPECT_EQ(coarse_steps_of(question, 8'000), Steps{});
  EXPECT_EQ(coarse_steps_of(question, 8'001), (Steps{{1, 4}}));
  EXPECT_EQ(coarse_steps_of(question, 64'000), (Steps{{1, 4}}));
  EXPECT_EQ(coarse_steps_of(question, 100'000), (Steps{{1, 2}}));
  EXPECT_EQ(coarse_steps_of(question, 200'000), Steps{});
  EXPECT_EQ(coarse_steps_of(of_micro_batches(1), 9'000), Steps{});
}

TEST(CoarseStep, OfSeveralDevicesHasMore) {
  PlanQuestion question = of_micro_batches(64);
  question.machine.devices.resize(4, question.machine.devices.front());
  EXPECT_EQ(coarse_steps_of(question, 40'000), (RoundsAndMicroBatches{{1, 8}}));
}

TEST(CoarseStep, OfManyRoundsHasAFewWholeOnesOrAsManyOfLess) {
  using Steps = RoundsAndMicroBatches;
  PlanQuestion question = of_micro_batches(64);
  question.rounds = 4;
  EXPECT_EQ(coarse_steps_of(question, 16'000), (Steps{{2, 32}, {4, 16}}));
  EXPECT_EQ(coarse_steps_of(question, 64'000), (Steps{{2, 8}, {4, 8}}));
  EXPECT_EQ(coarse_steps_of(question, 150'000), (Steps{{2, 2}}));
  question.rounds = 16;
  EXPECT_EQ(coarse_steps_of(question, 16'000), (Steps{{4, 16}, {16, 32}}));
  EXPECT_EQ(coarse_steps_of(question, 64'000), (Steps{{2, 8}}));
}

// The one that `micro_batches` of a question in one round have.
CoarseStep coarse_step_of(const PlanQuestion& question, int micro_batches) {
  const std::ptrdiff_t tasks = 8'000 * question.micro_batches / micro_batches;
  std::vector<CoarseStep> steps = coarse_steps(question, make_chain(question), tasks, 8'000);
  EXPECT_EQ(steps.front().question.micro_batches, micro_batches);
  return std::move(steps.front());
}

TEST(CoarseStep, TakesAsLongAndMovesAsMuchInAll) {
  const PlanQuestion question = of_micro_batches(30);
  const Chain chain = make_chain(question);
  const CoarseStep coarse = coarse_step_of(question, 4);
  EXPECT_NEAR(as_double(coarse.chain.activation) * 4, as_double(chain.activation) * 30, 4);
  for (const BlockId b : chain.blocks.ids()) {
    const ChainBlock& fine = chain.blocks[b];
    const ChainBlock& block = coarse.chain.blocks[b];
    EXPECT_DOUBLE_EQ(block.forward.count * 4, fine.forward.count * 30);
    EXPECT_DOUBLE_EQ(block.backward.count * 4, fine.backward.count * 30);
    EXPECT_DOUBLE_EQ(block.saved_backward.count * 4, fine.saved_backward.count * 30);
    EXPECT_NEAR(as_double(block.saved) * 4, as_double(fine.saved) * 30, 4);
    EXPECT_EQ(block.weights, fine.weights);
    EXPECT_EQ(block.host_update, fine.host_update);
    EXPECT_EQ(block.backward_workspace, fine.backward_workspace);
  }
}

TEST(CoarseStep, OfFewerRoundsHasTheSameMicroBatchesAndShorterUpdates) {
  PlanQuestion question = of_micro_batches(64);
  question.rounds = 16;
  const Chain chain = make_chain(question);
  const CoarseStep coarse = coarse_steps(question, chain, 16'000, 8'000).front();
  EXPECT_EQ(batches_at_once(coarse.question), batches_at_once(question));
  EXPECT_EQ(coarse.chain.activation, chain.activation);
  for (const BlockId b : chain.blocks.ids()) {
    const ChainBlock& fine = chain.blocks[b];
    const ChainBlock& block = coarse.chain.blocks[b];
    EXPECT_EQ(block.backward, fine.backward);
    EXPECT_EQ(block.saved, fine.saved);
    EXPECT_DOUBLE_EQ(block.host_update.count * 4, fine.host_update.count);
    EXPECT_DOUBLE_EQ(block.device_update.count * 4, fine.device_update.count);
  }
}

Plan plan_of(const PlanQuestion& question, const Chain& chain, const StreamSchedule& schedule) {
  Plan plan = write_stream_plan(question, chain, schedule);
  order_accesses(plan);
  const std::optional<Violation> violation = verify(plan);
  EXPECT_FALSE(violation) << violation->message;
  return plan;
}

// Forward in two visits per round, the first with so many micro-batches of a round that has the
// most, and with as large a share of others.
StreamSchedule schedule_of(const PlanQuestion& question, const Chain& chain, int in_first_visit) {
  const int blocks = static_cast<int>(chain.size());
  StreamSchedule schedule;
  schedule.strategy = "mobius";
  for (int round = 0; round < question.rounds; ++round) {
    const int first = first_of_round(question, round);
    const int end = first_of_round(question, round + 1);
    const int middle = first + in_first_visit * (end - first) / batches_at_once(question);
    for (int b = 0; b < blocks; ++b) {
      schedule.visits.push_back({Direction::forward, 0, b, b + 1, first, middle});
      schedule.visits.push_back({Direction::forward, 0, b, b + 1, middle, end});
    }
    for (int b = blocks; b-- > 0;) {
      schedule.visits.push_back({Direction::backward, 0, b, b + 1, first, end});
    }
  }
  return schedule;
}

// 30 are no multiple of 4.
TEST(CoarseStep, ItsScheduleRunsEveryMicroBatchOnceAndTakesAboutAsLong) {
  const PlanQuestion question = of_micro_batches(30);
  const CoarseStep coarse = coarse_step_of(question, 4);
  const StreamSchedule schedule = schedule_of(coarse.question, coarse.chain, 3);
  const StreamSchedule fine = fine_schedule(schedule, coarse, question);
  EXPECT_EQ(fine.visits.front().end_batch, 22);
  EXPECT_EQ(fine.activation_slots, 22);
  const Micros many = simulate(plan_of(question, make_chain(question), fine)).step;
  const Micros few = simulate(plan_of(coarse.question, coarse.chain, schedule)).step;
  EXPECT_NEAR(many.count / few.count, 1, 0.05);
}

// 62 are no multiple of 16: some rounds have 3, others 4.
TEST(CoarseStep, ItsFewRoundsStandForManyWhichTakeAsManyTimesAsLong) {
  PlanQuestion question = of_micro_batches(62);
  question.rounds = 16;
  const Chain chain = make_chain(question);
  const CoarseStep coarse = coarse_steps(question, chain, 15'000, 8'000).front();
  ASSERT_EQ(coarse.question.rounds, 4);
  const StreamSchedule schedule = schedule_of(coarse.question, coarse.chain, 2);
  const StreamSchedule fine = fine_schedule(schedule, coarse, question);
  EXPECT_TRUE(fine.visits == schedule_of(question, chain, 2).visits);
  EXPECT_EQ(fine.activation_slots, schedule.activation_slots);
  const Micros many = simulate(plan_of(question, chain, fine)).step;
  const Micros few = simulate(plan_of(coarse.question, coarse.chain, schedule)).step;
  EXPECT_NEAR(many.count / few.count, 62.0 / 16, 0.05 * 4);
}

// What is found for few micro-batches is as fast with 50 times as many that each take a fiftieth.
TEST(CoarseStep, ManyMicroBatchesArePlannedAsWellAsFew) {
  PlanQuestion many = of_micro_batches(400);
  many.strategy = "mobius";
  many.clips = false;
  set_device_budgets(many, Bytes{states_of(many).count * 3 / 4});
  PlanQuestion half = many;
  half.micro_batches = 200;
  CoarseStep few = coarse_step_of(half, 4);
  few.question.micro_batches = 8;
  const auto step_of = [](const StrategyAnswer& answer) {
    return std::get<StrategyPlan>(answer).prediction.step;
  };
  EXPECT_LE(step_of(plan_mobius(many, make_chain(many))),
            step_of(plan_mobius(few.question, few.chain)) * 1.02);
}

// On a small device the rings of a coarse step take what stages need.
TEST(CoarseStep, MakesNoStepLonger) {
  PlanQuestion question = of_micro_batches(300);
  question.strategy = "mobius";
  question.clips = false;
  question.profile.copy_overhead = Micros{1};
  for (MachineDevice& device : question.machine.devices) {
    device.up.bytes_per_second = device.down.bytes_per_second = 2e8;
  }
  std::optional<Micros> before;
  for (const int kib : {600, 700, 800, 1000, 1400, 2000}) {
    SCOPED_TRACE(kib);
    set_device_budgets(question, Bytes{kib * 1024});
    const AnswerWithoutRemedies answer = answer_question(question);
    const auto* planned = std::get_if<Planned>(&answer);
    if (planned == nullptr) continue;
    if (before) {
      EXPECT_LE(planned->expected.count, before->count * (1 + 1e-9));
    }
    before = planned->expected;
  }
  EXPECT_TRUE(before.has_value());
}

}  // namespace
}  // namespace ferry
