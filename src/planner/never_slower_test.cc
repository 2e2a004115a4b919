// More device memory never makes a plan slower, on questions of sizes that people train; nor does a
// drive.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "planner/answer.h"
#include "planner/realistic_questions.h"
#include "planner/sample_questions.h"

namespace ferry {
namespace {

struct Ladder {
  std::uint64_t seed;
  int sizes;  // from 8 to 192 GiB per device, by equal factors: each with all before it is a pair
  bool turns_blocks = false;  // singly, which takes long
};

class MoreDeviceMemory : public testing::TestWithParam<Ladder> {};

TEST_P(MoreDeviceMemory, NeverMakesAPlanSlower) {
  const auto [seed, usually, turns_blocks] = GetParam();
  const auto sizes = static_cast<int>(random_share(static_cast<std::uint64_t>(usually)));
  if (sizes < 2) GTEST_SKIP() << "no pair in this share of the random questions";
  PlanQuestion question = realistic_question(seed);
  question.micro_batches = 2;
  if (turns_blocks) question.options.without.clear();
  std::optional<Micros> least;
  for (int i = 0; i < sizes; ++i) {
    const double gib = 8 * std::pow(24.0, static_cast<double>(i) / (sizes - 1));
    SCOPED_TRACE(std::to_string(gib) + " GiB");
    const Bytes each{static_cast<std::int64_t>(gib * static_cast<double>((1_GiB).count))};
    const AnswerWithoutRemedies answer = answer_question(with_device_memory(question, each));
    const auto* planned = std::get_if<Planned>(&answer);
    ASSERT_TRUE(planned != nullptr || !least) << "fits with less";
    if (planned == nullptr) continue;
    const Micros step = planned->expected;
    if (least) {
      EXPECT_LE(step.count, least->count * (1 + 1e-9));
    }
    least = step;
  }
  EXPECT_TRUE(least.has_value());
}

// 7B on two GPUs, twice, one with less DRAM; on four with drives; on eight; 8B on four and 70B on
// two with drives. More than 500 pairs; bench/memory_bench.cc draws any number.
INSTANTIATE_TEST_SUITE_P(Questions, MoreDeviceMemory,
                         testing::Values(Ladder{18, 31}, Ladder{7, 8}, Ladder{6, 8}, Ladder{16, 4},
                                         Ladder{22, 4}, Ladder{8, 3}, Ladder{7, 4, true}));

// What DRAM lacks rests on the device, where there is room.
TEST(ADrive, HurtsNobody) {
  for (const bool clips : {false, true}) {
    PlanQuestion question = sample_question({.layers = 6, .hidden = 64}, {}, 2);
    question.clips = clips;
    question.host_budget = {states_of(question).count / 2};
    const Micros without = must_fit(question).expected;
    for (const Bytes capacity : {4_KiB, 1_GiB}) {
      question.machine.drives = {
          {.name = "ssd0", .capacity = capacity, .read = {1e8}, .write = {1e8}}};
      const Planned with = must_fit(question);
      expect_promises_hold(with);
      EXPECT_LE(with.expected.count, without.count * (1 + 1e-9)) << to_string(capacity);
      EXPECT_EQ(with.candidates.front().strategy, with.plan.strategy);
      for (const Candidate& candidate : with.candidates) {  // the table is of what each one finds
        PlanQuestion alone = question;
        alone.strategy = candidate.strategy;
        const bool fits = std::holds_alternative<Planned>(answer_question(alone));
        EXPECT_TRUE(candidate.fits == fits || capacity == 4_KiB) << candidate.strategy;
      }
    }
  }
}

// What neither DRAM nor a small drive holds rests on the device: such plans fit a large one, too.
TEST(ADrive, IsTooSmallOnlyWhereTheDeviceHoldsNoMore) {
  PlanQuestion question = sample_question({.layers = 6, .hidden = 64}, {}, 2);
  question.strategy = "mobius";
  const auto share = [&](double of) {
    const double states = static_cast<double>(states_of(question).count);
    return Bytes{static_cast<std::int64_t>(states * of)};
  };
  question.host_budget = share(0.5);
  set_device_budgets(question, share(0.8));
  const auto with_drive = [&](double of) {
    question.machine.drives = {
        {.name = "ssd0", .capacity = share(of), .read = {1e9}, .write = {1e9}}};
    return answer_question(question);
  };
  for (const bool clips : {false, true}) {
    SCOPED_TRACE(clips);
    question.clips = clips;
    EXPECT_TRUE(std::holds_alternative<Shortage>(with_drive(0.25)));
    const AnswerWithoutRemedies small = with_drive(0.4);  // with nothing on the device it took 0.7
    const AnswerWithoutRemedies large = with_drive(1.0);
    ASSERT_TRUE(std::holds_alternative<Planned>(small));
    expect_promises_hold(std::get<Planned>(small));
    EXPECT_LE(std::get<Planned>(large).expected, std::get<Planned>(small).expected);
  }
}

}  // namespace
}  // namespace ferry
