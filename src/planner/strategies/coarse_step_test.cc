#include "planner/strategies/coarse_step.h"

#include <gtest/gtest.h>

#include <optional>
#include <variant>

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

TEST(CoarseStep, HasSoManyMicroBatchesThatItsPlanIsSearched) {
  const PlanQuestion question = of_micro_batches(32);
  const auto of_plan = [&](int tasks) { return coarse_micro_batches(question, tasks, 8'000); };
  EXPECT_EQ(of_plan(8'000), std::nullopt);
  EXPECT_EQ(of_plan(8'001), 4);
  EXPECT_EQ(of_plan(64'000), 4);
  EXPECT_EQ(of_plan(100'000), 2);
  EXPECT_EQ(of_plan(200'000), std::nullopt);
  EXPECT_EQ(coarse_micro_batches(of_micro_batches(1), 9'000, 8'000), std::nullopt);
}

TEST(CoarseStep, OfSeveralDevicesHasMore) {
  PlanQuestion question = of_micro_batches(64);
  question.machine.devices.resize(4, question.machine.devices.front());
  EXPECT_EQ(coarse_micro_batches(question, 40'000, 8'000), 8);
}

TEST(CoarseStep, TakesAsLongAndMovesAsMuchInAll) {
  const PlanQuestion question = of_micro_batches(30);
  const Chain chain = make_chain(question);
  const CoarseStep coarse = coarse_step(question, chain, 4);
  EXPECT_EQ(coarse.question.micro_batches, 4);
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

Plan plan_of(const PlanQuestion& question, const Chain& chain, const StreamSchedule& schedule) {
  Plan plan = write_stream_plan(question, chain, schedule);
  order_accesses(plan);
  const std::optional<Violation> violation = verify(plan);
  EXPECT_FALSE(violation) << violation->message;
  return plan;
}

// 30 are no multiple of 4.
TEST(CoarseStep, ItsScheduleRunsEveryMicroBatchOnceAndTakesAboutAsLong) {
  const PlanQuestion question = of_micro_batches(30);
  const Chain chain = make_chain(question);
  const CoarseStep coarse = coarse_step(question, chain, 4);
  const int blocks = static_cast<int>(chain.size());
  StreamSchedule schedule{.strategy = "mobius"};
  for (int b = 0; b < blocks; ++b) {
    schedule.visits.push_back({Direction::forward, 0, b, b + 1, 0, 3});
    schedule.visits.push_back({Direction::forward, 0, b, b + 1, 3, 4});
  }
  for (int b = blocks; b-- > 0;) {
    schedule.visits.push_back({Direction::backward, 0, b, b + 1, 0, 4});
  }
  const StreamSchedule fine = fine_schedule(schedule, 4, 30);
  EXPECT_EQ(fine.visits.front().end_batch, 22);
  EXPECT_EQ(fine.activation_slots, 22);
  const Micros many = simulate(plan_of(question, chain, fine)).step;
  const Micros few = simulate(plan_of(coarse.question, coarse.chain, schedule)).step;
  EXPECT_NEAR(many.count / few.count, 1, 0.05);
}

// What is found for few micro-batches is as fast with 50 times as many that each take a fiftieth.
TEST(CoarseStep, ManyMicroBatchesArePlannedAsWellAsFew) {
  PlanQuestion many = of_micro_batches(400);
  many.strategy = "mobius";
  many.clips = false;
  set_device_budgets(many, Bytes{states_of(many).count * 3 / 4});
  const Chain chain = make_chain(many);
  const CoarseStep few = coarse_step(many, chain, 8);
  const auto step_of = [](const StrategyAnswer& answer) {
    return std::get<StrategyPlan>(answer).prediction.step;
  };
  EXPECT_LE(step_of(plan_mobius(many, chain)),
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
