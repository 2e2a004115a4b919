// What holds for every question, tried on thousands of small models and machines.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "planner/sample_questions.h"
#include "planner/strategies/strategies.h"
#include "planner/write/activation_policy.h"

namespace ferry {
namespace {

constexpr std::uint64_t kLostMobius = 3194;

TEST(Properties, EveryPlanIsProvedFitsAndIsNoFasterThanTheBound) {
  std::uint64_t planned_ones = 0;
  for (std::uint64_t seed = 1; seed <= random_share(400); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const PlanAnswer answer = make_plan(random_question(seed, true));
    const auto* planned = std::get_if<Planned>(&answer);
    if (planned == nullptr) continue;
    ++planned_ones;
    expect_promises_hold(*planned);
    for (const Candidate& candidate : planned->candidates) {
      if (!candidate.fits) continue;
      ASSERT_GE(candidate.step.count * (1 + 1e-9), candidate.lower_bound.count)
          << candidate.strategy;
    }
  }
  expect_enough(planned_ones, 110);
}

// A question of the seed whose blocks can all leave for the drives, if it has some.
PlanQuestion swapping_question(std::uint64_t seed) {
  constexpr std::array kStreaming = {"mobius",     "roundpipe", "harmony-pp",
                                     "harmony-dp", "zero",      "fuyou"};
  PlanQuestion question = random_question(seed);
  question.mode = PlanMode::train;
  question.strategy = kStreaming[seed % kStreaming.size()];
  question.options.activations = ActivationRule::swap_to_drive;
  question.host_budget = question.host_budget * 2;
  for (BlockProfile& block : question.profile.blocks) {
    block.saved = block.activation * 4;
    block.saved_backward = block.backward * 0.7;
    block.saving_workspace = block.forward_workspace;
    block.saved_backward_workspace = block.backward_workspace;
  }
  return question;
}

TEST(Properties, EveryPlanThatSwapsToDrivesIsProvedFitsAndIsNoFasterThanTheBound) {
  std::uint64_t swapping = 0;
  for (std::uint64_t seed = 1; seed <= random_share(200); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const PlanAnswer answer = make_plan(swapping_question(seed));
    const auto* planned = std::get_if<Planned>(&answer);
    if (planned == nullptr) continue;
    const ActivationPolicies policies = policies_of(planned->plan);
    swapping += std::ranges::count(policies, ActivationPolicy::swap_to_drive) > 0 ? 1 : 0;
    expect_promises_hold(*planned);
  }
  expect_enough(swapping, 20);
}

Micros end_of(const Simulation& simulation, int step) {
  Micros end;
  for (const Span& span : simulation.timeline.spans) {
    if (span.run.step == step) end = std::max(end, span.end);
  }
  return end;
}

// A run is long: what a plan pushes out of one step is in the next one's way.
TEST(Properties, ThePredictedStepIsThatOfALongRun) {
  constexpr int kFrom = 8;
  constexpr int kTo = 24;
  for (std::uint64_t seed = 1; seed <= random_share(70); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const PlanAnswer answer = make_plan(random_question(seed, seed % 4 != 0));
    const auto* planned = std::get_if<Planned>(&answer);
    if (planned == nullptr) continue;
    const Simulation run = simulate(planned->plan, kTo + 1);
    const double mean = (end_of(run, kTo) - end_of(run, kFrom)).count / (kTo - kFrom);
    EXPECT_NEAR(planned->prediction.step.count, std::max(mean, run.busiest.count), 0.04 * mean);
  }
}

// What drives offer is taken only where it is faster.
TEST(Properties, DrivesNeverMakeAStrategySlower) {
  for (std::uint64_t seed = 1; seed <= random_share(70); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PlanQuestion question = random_question(seed, seed % 4 != 0);
    const PlanAnswer with = make_plan(question);
    question.machine.drives.clear();
    const PlanAnswer without = make_plan(question);
    if (!std::holds_alternative<Planned>(without)) continue;
    ASSERT_TRUE(std::holds_alternative<Planned>(with));
    EXPECT_LE(std::get<Planned>(with).expected.count,
              std::get<Planned>(without).expected.count * (1 + 1e-8));
  }
}

TEST(Properties, EvaluationIsProvedAndFitsBesideTraining) {
  std::uint64_t at_home = 0;
  for (std::uint64_t seed = 1; seed <= random_share(120); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PlanQuestion question = random_question(seed, seed % 4 != 0);
    question.mode = PlanMode::train;
    question.evaluates = true;
    if (seed % 3 == 0) question.micro_batches = 1;
    const PlanAnswer answer = make_plan(question);
    const auto* planned = std::get_if<Planned>(&answer);
    if (planned == nullptr) continue;
    expect_promises_hold(*planned);
    EXPECT_TRUE(planned->evaluation);
    const auto rests_elsewhere = [&](const Instance& instance) {
      return instance.home && planned->plan.places[instance.place].kind != PlaceKind::host;
    };
    if (std::ranges::any_of(planned->plan.instances, rests_elsewhere)) ++at_home;
  }
  expect_enough(at_home, 20);
}

// So auto searches them once.
TEST(Properties, AStrategyThatIsTheSameAsAnotherMakesItsPlans) {
  std::map<std::string, std::uint64_t> found;
  for (std::uint64_t seed = 1; seed <= random_share(100); ++seed) {
    PlanQuestion question = random_question(seed, seed % 4 != 0);
    for (const Strategy& strategy : strategies()) {
      const char* same = strategy.same_as ? strategy.same_as(question) : nullptr;
      if (same == nullptr) continue;
      SCOPED_TRACE("seed " + std::to_string(seed) + ", " + strategy.name + " and " + same);
      question.strategy = strategy.name;
      const PlanAnswer one = make_plan(question);
      question.strategy = same;
      const PlanAnswer other = make_plan(question);
      ASSERT_EQ(one.index(), other.index());
      const auto* planned = std::get_if<Planned>(&one);
      if (planned == nullptr) continue;
      Plan renamed = planned->plan;
      renamed.strategy = same;
      EXPECT_EQ(to_text(renamed), to_text(std::get<Planned>(other).plan));
      EXPECT_EQ(planned->expected, std::get<Planned>(other).expected);
      ++found[strategy.name];
    }
  }
  for (const Strategy& strategy : strategies()) {
    if (strategy.same_as) expect_enough(found[strategy.name], 2);
  }
}

// The last is one where the search of a losing strategy once ended elsewhere than it does alone.
TEST(Properties, AutoIsNoSlowerThanAnyStrategy) {
  std::vector<std::uint64_t> seeds(random_share(45));
  std::iota(seeds.begin(), seeds.end(), 1);
  seeds.push_back(kLostMobius);
  for (const std::uint64_t seed : seeds) {
    PlanQuestion question = random_question(seed, seed % 4 != 0);
    if (seed == kLostMobius)
      set_device_budgets(question, Bytes{device_budget(question, 0).bytes.count * 23 / 20});
    question.strategy = "auto";
    const PlanAnswer chosen = make_plan(question);
    if (!std::holds_alternative<Planned>(chosen)) continue;
    const Micros step = std::get<Planned>(chosen).expected;
    for (const Strategy& strategy : strategies()) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", " + strategy.name);
      question.strategy = strategy.name;
      const PlanAnswer alone = make_plan(question);
      if (const auto* planned = std::get_if<Planned>(&alone)) {
        EXPECT_LE(step.count, planned->expected.count * (1 + 1e-8));
      }
    }
  }
}

TEST(Properties, ALittleMoreMemoryDoesNotLoseTheBestPartition) {
  // The evaluator's six best partitions were others with a little more memory; and the runner-up
  // with room for a longer ring.
  for (const std::uint64_t seed : {std::uint64_t{226}, std::uint64_t{290}, kLostMobius}) {
    PlanQuestion question = random_question(seed, seed % 4 != 0);
    question.strategy = "mobius";
    question.options.without = "homes";  // which move by more
    const Micros before = must_fit(question).expected;
    for (const int percent : {102, 115, 140}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", percent " + std::to_string(percent));
      PlanQuestion roomier = question;
      set_device_budgets(roomier, Bytes{device_budget(question, 0).bytes.count * percent / 100});
      EXPECT_LE(must_fit(roomier).expected.count, before.count * (1 + 1e-8));
    }
  }
}

// More memory, bandwidth or drives never make auto slower.
class More : public testing::TestWithParam<const char*> {};

PlanQuestion with_more(PlanQuestion question, const std::string& what) {
  Machine& machine = question.machine;
  if (what == "device memory") set_device_budgets(question, device_budget(question, 0).bytes * 2);
  if (what == "host memory") question.host_budget = question.host_budget * 2;
  if (what == "a drive" && !machine.drives.empty()) {
    machine.drives.push_back(machine.drives.front());
    machine.drives.back().name = "another";
  }
  if (what == "a slow drive" && !machine.drives.empty()) {
    machine.drives.push_back(machine.drives.front());
    Drive& slow = machine.drives.back();
    slow.name = "another";
    slow.read.bytes_per_second /= 8;
    slow.write.bytes_per_second /= 8;
  }
  for (MachineDevice& device : machine.devices) {
    if (what != "link rate") break;
    device.up.bytes_per_second *= 1.5;
    device.down.bytes_per_second *= 1.5;
  }
  for (Drive& drive : machine.drives) {
    if (what != "drive rate") break;
    drive.read.bytes_per_second *= 1.5;
    drive.write.bytes_per_second *= 1.5;
  }
  return question;
}

/// Which tasks run, where and in which order, however long they take.
std::string tasks_of(Plan plan) {
  for (Task& task : plan.tasks) task.micros = {};
  const std::string text = to_text(plan);
  return text.substr(text.find("\ntask "));
}

TEST_P(More, NeverMakesAutoSlower) {
  for (std::uint64_t seed = 1; seed <= random_share(60); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PlanQuestion question = random_question(seed, seed % 4 != 0);
    question.strategy = "auto";
    const PlanAnswer before = make_plan(question);
    if (!std::holds_alternative<Planned>(before)) continue;
    const PlanAnswer after = make_plan(with_more(question, GetParam()));
    ASSERT_TRUE(std::holds_alternative<Planned>(after));
    const Planned& now = std::get<Planned>(after);
    const Planned& then = std::get<Planned>(before);
    // A faster copy draws more of the cores while it lasts, perhaps when kernels want them all: the
    // very same plan may take a little longer (seed 50, 0.006 %).
    const bool is_same =
        GetParam() == std::string("link rate") && tasks_of(now.plan) == tasks_of(then.plan);
    EXPECT_LE(now.expected.count, then.expected.count * (1 + (is_same ? 1e-4 : 1e-8)));
  }
}

INSTANTIATE_TEST_SUITE_P(Properties, More,
                         testing::Values("device memory", "host memory", "a drive", "a slow drive",
                                         "link rate", "drive rate"));

}  // namespace
}  // namespace ferry
