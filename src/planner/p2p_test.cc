// What devices with p2p have for each other goes straight between them.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "plan/verify.h"
#include "planner/sample_questions.h"
#include "planner/strategies/strategies.h"

namespace ferry {
namespace {

constexpr double kLink = 200e6;
constexpr double kP2p = 4 * kLink;

/// Slow links below two roots, and activations that are large beside weights.
PlanQuestion question_of(const std::string& strategy, int devices, double p2p, bool tied = false) {
  const SampleMachine machine{.devices = devices,
                              .roots = 2,
                              .link_rate = kLink,
                              .cores = 16,
                              .threads = 1,
                              .p2p_rate = p2p};
  PlanQuestion question = sample_question({.tied = tied, .layers = 4}, machine, 4);
  use_round_costs(question);
  question.strategy = strategy;
  for (BlockProfile& block : question.profile.blocks) block.activation = 200_KiB;
  return question;
}

/// Of a step, over the links to the host.
Bytes bytes_over_links(const Plan& plan) {
  Bytes bytes;
  for (const Task& task : plan.tasks) {
    if (task.kind == TaskKind::copy && !goes_between_devices(plan, task)) bytes += task.bytes;
  }
  return bytes;
}

int copies_between(const Plan& plan) {
  return static_cast<int>(std::ranges::count_if(
      plan.tasks, [&](const Task& task) { return goes_between_devices(plan, task); }));
}

struct Case {
  const char* strategy;
  int devices;
};

class P2p : public testing::TestWithParam<Case> {};

TEST_P(P2p, TakesBytesOffTheLinksAndMakesNoStepLonger) {
  for (const bool tied : {false, true}) {
    SCOPED_TRACE(tied);
    const Planned staged = must_fit(question_of(GetParam().strategy, GetParam().devices, 0, tied));
    const Planned straight =
        must_fit(question_of(GetParam().strategy, GetParam().devices, kP2p, tied));
    expect_promises_hold(straight);
    EXPECT_EQ(copies_between(staged.plan), 0);
    EXPECT_GT(copies_between(straight.plan), 0);
    EXPECT_LT(bytes_over_links(straight.plan), bytes_over_links(staged.plan));
    EXPECT_LT(straight.expected, staged.expected);
    EXPECT_LE(straight.lower_bound, staged.lower_bound);
  }
}

TEST_P(P2p, IsAPassThatAJobCanSwitchOff) {
  PlanQuestion question = question_of(GetParam().strategy, GetParam().devices, kP2p);
  const Planned straight = must_fit(question);
  question.options.without = "p2p,blocks";
  const Planned staged = must_fit(question);
  EXPECT_EQ(copies_between(staged.plan), 0);
  EXPECT_LT(straight.expected, staged.expected);
  question = question_of(GetParam().strategy, GetParam().devices, 0);
  EXPECT_EQ(to_text(must_fit(question).plan), to_text(staged.plan));
}

INSTANTIATE_TEST_SUITE_P(Strategies, P2p,
                         testing::Values(Case{"mobius", 2}, Case{"mobius", 4}, Case{"1f1b", 2},
                                         Case{"1f1b", 4}, Case{"gpipe", 2}, Case{"interleaved", 2},
                                         Case{"mixed-pipe", 4}, Case{"harmony-pp", 4},
                                         Case{"roundpipe", 4}),
                         [](const auto& one) {
                           std::string name = one.param.strategy + std::string("_") +
                                              std::to_string(one.param.devices);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// All that a pipeline's stages have for each other, a tied head's weights and sum included.
TEST(Straight, APipelineSendsNothingBetweenItsDevicesThroughTheHost) {
  const Planned planned = must_fit(question_of("1f1b", 2, kP2p, true));
  for (const Task& task : planned.plan.tasks) {
    if (task.kind != TaskKind::copy) continue;
    const Value& moved = planned.plan.values[planned.plan.instances[task.reads.front()].value];
    const bool for_the_host = moved.kind == ValueKind::tokens || moved.kind == ValueKind::norm ||
                              moved.kind == ValueKind::loss || moved.kind == ValueKind::clip;
    EXPECT_EQ(goes_between_devices(planned.plan, task), !for_the_host) << task.name;
  }
}

// A device without p2p has what it makes and reads staged, beside others that have it.
TEST(Straight, TakesBothEnds) {
  PlanQuestion question = question_of("1f1b", 4, kP2p);
  question.machine.devices[2].p2p = {};
  const Plan plan = must_fit(question).plan;
  EXPECT_GT(copies_between(plan), 0);
  for (const Task& task : plan.tasks) {
    if (!goes_between_devices(plan, task)) continue;
    for (const InstanceId end : {task.reads.front(), task.writes.front()}) {
      EXPECT_NE(plan.places[plan.instances[end].place].name, "gpu2") << task.name;
    }
  }
}

// A copy is as fast as the slower of its ends, and all that one device sends shares its rate.
TEST(Straight, ACopyDrawsOnWhatOneSendsAndTheOtherReceives) {
  PlanQuestion question = question_of("1f1b", 4, kP2p);
  question.machine.devices[1].p2p = {kP2p / 2};
  const Plan plan = must_fit(question).plan;
  const auto queue = std::ranges::find(plan.resources, "gpu0.acts_to_gpu1", &Resource::name);
  ASSERT_NE(queue, plan.resources.end());
  EXPECT_EQ(plan.places[queue->place].name, "gpu0");
  EXPECT_EQ(queue->rate, kP2p / 2);
  ASSERT_EQ(queue->draws.size(), 2);
  EXPECT_EQ(plan.pools[queue->draws[0].pool].name, "gpu0.peer_out");
  EXPECT_EQ(plan.pools[queue->draws[0].pool].capacity, kP2p);
  EXPECT_EQ(plan.pools[queue->draws[1].pool].name, "gpu1.peer_in");
  EXPECT_EQ(plan.pools[queue->draws[1].pool].capacity, kP2p / 2);
  for (const Draw& draw : queue->draws) EXPECT_EQ(draw.rate, kP2p / 2);
}

// Of what goes straight, too, single blocks are turned.
TEST(Straight, SingleBlocksMakeItShorter) {
  PlanQuestion question = question_of("mobius", 4, kP2p);
  set_device_budgets(question, Bytes{states_of(question).count / 4});
  const Planned without = must_fit(question);
  question.options.without = {};
  const Planned with = must_fit(question);
  expect_promises_hold(with);
  EXPECT_GT(copies_between(without.plan), 0);
  EXPECT_GT(copies_between(with.plan), 0);
  EXPECT_LT(with.expected, without.expected);
}

// All that is tried without p2p is tried with it. Between two rates there is no such rule.
TEST(Straight, NeverMakesAPlanSlower) {
  constexpr double kBetweenRates = 0.02;
  std::uint64_t faster = 0;
  for (std::uint64_t seed = 1; seed <= random_share(100); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PlanQuestion question = random_question(seed, seed % 4 != 0);
    question.mode = PlanMode::train;  // an evaluation follows what trains, whatever suits that
    question.machine.devices.resize(std::max<std::size_t>(2, question.machine.devices.size()),
                                    question.machine.devices.front());
    for (std::size_t d = 0; d < question.machine.devices.size(); ++d) {
      question.machine.devices[d].name = "gpu" + std::to_string(d);
      question.machine.devices[d].p2p = {};
    }
    set_device_budgets(question, device_budget(question, 0).bytes);
    const PlanAnswer before = make_plan(question);
    if (!std::holds_alternative<Planned>(before)) continue;
    const double staged = std::get<Planned>(before).expected.count;
    double step = staged;
    for (const double rate : {10e6, 100e6, 2e9}) {
      for (MachineDevice& device : question.machine.devices) device.p2p = {rate};
      const PlanAnswer after = make_plan(question);
      ASSERT_TRUE(std::holds_alternative<Planned>(after));
      expect_promises_hold(std::get<Planned>(after));
      const double now = std::get<Planned>(after).expected.count;
      EXPECT_LE(now, staged * (1 + 1e-8)) << rate;
      EXPECT_LE(now, step * (1 + kBetweenRates)) << rate;
      faster += now < 0.999 * step ? 1 : 0;
      step = std::min(step, now);
    }
  }
  expect_enough(faster, 20);
}

}  // namespace
}  // namespace ferry
