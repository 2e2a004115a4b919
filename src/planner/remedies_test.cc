#include "planner/remedies.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "planner/answer.h"
#include "planner/costs/estimate.h"
#include "planner/sample_questions.h"
#include "spec/quantity.h"

namespace ferry {
namespace {

TEST(Remedies, EachOneFitsAndIsTimed) {
  std::uint64_t shortages = 0;
  std::uint64_t remedies = 0;
  for (std::uint64_t seed = 1; seed <= random_share(70); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const PlanQuestion question = random_question(seed);
    const AnswerWithoutRemedies answer = answer_question(question);
    const auto* lacking = std::get_if<Shortage>(&answer);
    if (lacking == nullptr) continue;
    ++shortages;
    const std::vector<FittingChange> changes = find_changes(question, *lacking);
    EXPECT_FALSE(changes.empty());
    EXPECT_LE(changes.size(), 3U);
    for (const FittingChange& change : changes) {
      SCOPED_TRACE(change.text);
      ++remedies;
      EXPECT_EQ(must_fit(change.question).expected, change.step);
    }
  }
  expect_enough(shortages, 13);
  EXPECT_GT(remedies, shortages);
}

// A workspace was a byte larger after scaling than when estimated: another question.
TEST(Remedies, APromiseIsWhatTheChangedJobThenGets) {
  std::uint64_t batches = 0;
  for (std::uint64_t seed = 1; seed <= random_share(40); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const PlanQuestion question = random_question(seed);
    const PlanQuestion estimated = [&] {
      PlanQuestion fresh = question;
      fresh.profile = {};
      return with_estimated_profile(fresh);
    }();
    const AnswerWithoutRemedies answer = answer_question(estimated);
    const auto* lacking = std::get_if<Shortage>(&answer);
    if (lacking == nullptr) continue;
    for (const FittingChange& change : find_changes(estimated, *lacking)) {
      SCOPED_TRACE(change.text);
      PlanQuestion asked = change.question;
      asked.profile = {};
      asked = with_estimated_profile(asked);
      EXPECT_TRUE(asked.profile == change.question.profile);
      EXPECT_EQ(must_fit(asked).expected, change.step);
      batches += change.text.starts_with("train.") || change.text.starts_with("data.") ? 1 : 0;
    }
  }
  expect_enough(batches, 3);
}

// A plan of a hundred thousand micro-batches takes minutes to make, and so did each refusal of one.
TEST(Remedies, NoneIsLookedForAmongEndlessPlans) {
  PlanQuestion question = sample_question({}, {}, 2);
  question = with_batch(question, 2, 1'000'000, question.sequence);
  set_device_budgets(question, states_of(question));
  const AnswerWithoutRemedies found = answer_question(question);
  ASSERT_TRUE(std::holds_alternative<Shortage>(found));
  const Answerer watched = [](const PlanQuestion& asked) {
    EXPECT_LT(asked.micro_batches, 10'000);
    return answer_question(asked);
  };
  EXPECT_FALSE(find_changes_of_size(question, std::get<Shortage>(found), watched).empty());
}

TEST(Remedies, ABudgetIsJustLargeEnough) {
  PlanQuestion question = sample_question({}, {}, 2);
  set_device_budgets(question, 10_KiB);
  const PlanAnswer answer = make_plan(question);
  const auto& lacking = std::get<DoesNotFit>(answer);
  EXPECT_EQ(lacking.place, "gpu0");
  EXPECT_EQ(lacking.have, 10_KiB);
  EXPECT_EQ(lacking.limit_source, "budget.device, job.yaml:9");
  ASSERT_FALSE(lacking.breakdown.empty());
  const Bytes enough = round_up(lacking.need, 1_MiB);
  const bool offered =
      std::any_of(lacking.remedies.begin(), lacking.remedies.end(), [&](const Remedy& remedy) {
        return remedy.change == "budget.device: " + std::to_string(enough.count >> 20) + " MiB";
      });
  EXPECT_TRUE(offered);
}

// What lacks is told of one way to fit it in: a search finds another that needs less.
TEST(Remedies, AMemoryIsTheLeastThatFits) {
  PlanQuestion question =
      sample_question({.layers = 12, .hidden = 256, .vocab = 512}, {.devices = 2}, 2);
  question.strategy = "mobius";
  const auto share = [&](double of) {
    return Bytes{static_cast<std::int64_t>(static_cast<double>(states_of(question).count) * of)};
  };
  question.host_budget = share(0.2);
  set_device_budgets(question, share(0.3));
  const PlanAnswer answer = make_plan(question);
  const auto& lacking = std::get<DoesNotFit>(answer);
  ASSERT_FALSE(lacking.remedies.empty());
  const std::string key = "budget.host: ";
  const std::string change = lacking.remedies.front().change;
  ASSERT_TRUE(change.starts_with(key)) << change;
  question.host_budget = parse_bytes(change.substr(key.size()));
  EXPECT_LT(question.host_budget, lacking.need);  // 70 MiB, 78
  EXPECT_EQ(must_fit(question).expected, lacking.remedies.front().step);
  question.host_budget = question.host_budget - 2_MiB;
  EXPECT_TRUE(std::holds_alternative<DoesNotFit>(plan_without_remedies(question)));
}

TEST(Remedies, AHostThatIsTooSmallIsSaidToBe) {
  PlanQuestion question = sample_question({}, {}, 2);
  question.strategy = "mobius";
  question.host_budget = 64_KiB;
  set_device_budgets(question, states_of(question));  // and no room beside them
  const PlanAnswer answer = make_plan(question);
  const auto& lacking = std::get<DoesNotFit>(answer);
  EXPECT_EQ(lacking.place, "host");
  EXPECT_EQ(lacking.limit_source, "budget.host, job.yaml:9");
}

// All states on the device is what lacks least, by little; in DRAM they would find room, too.
TEST(Remedies, MoreOfTheHostIsOneOfThemWhereADeviceLacks) {
  PlanQuestion question = sample_question({.layers = 6, .hidden = 64}, {}, 2);
  question.host_budget = 64_KiB;
  set_device_budgets(question, {states_of(question).count * 9 / 10});
  const PlanAnswer answer = make_plan(question);
  const auto& lacking = std::get<DoesNotFit>(answer);
  EXPECT_EQ(lacking.place, "gpu0");
  const auto offered = std::ranges::find_if(lacking.remedies, [](const Remedy& remedy) {
    return remedy.change.starts_with("budget.host: ");
  });
  ASSERT_NE(offered, lacking.remedies.end());
  question.host_budget = parse_bytes(offered->change.substr(std::string("budget.host: ").size()));
  EXPECT_EQ(must_fit(question).expected, offered->step);
}

// Streamed states in DRAM that has no room beside them, for gradient sums.
PlanQuestion more_than_dram() {
  PlanQuestion question = sample_question({.layers = 12, .hidden = 64}, {}, 2);
  question.strategy = "fuyou";
  question.host_budget = states_of(question);
  return question;
}

const Remedy* drive_among(const std::vector<Remedy>& remedies) {
  const auto found = std::ranges::find_if(
      remedies, [](const Remedy& remedy) { return remedy.change.starts_with("budget.drive: "); });
  return found == remedies.end() ? nullptr : &*found;
}

TEST(Remedies, ADriveIsOneOfThem) {
  PlanQuestion question = more_than_dram();
  question.possible_drive = PossibleDrive{.read = {3e9}, .write = {1.5e9}, .here = true};
  const PlanAnswer answer = make_plan(question);
  const Remedy* offered = drive_among(std::get<DoesNotFit>(answer).remedies);
  ASSERT_NE(offered, nullptr);
  EXPECT_EQ(offered->assumed, "a drive that reads 3 GB/s, writes 1.5 GB/s");
  // What the changed job then gets.
  const Bytes capacity = parse_bytes(offered->change.substr(std::string("budget.drive: ").size()));
  question.machine.drives = {
      {.name = "ssd0", .capacity = capacity, .read = {3e9}, .write = {1.5e9}}};
  EXPECT_EQ(must_fit(question).expected, offered->step);
}

TEST(Remedies, AMeasuredDriveAssumesNothing) {
  PlanQuestion question = more_than_dram();
  question.possible_drive =
      PossibleDrive{.read = {3e9}, .write = {1.5e9}, .here = true, .measured = true};
  const PlanAnswer answer = make_plan(question);
  const Remedy* offered = drive_among(std::get<DoesNotFit>(answer).remedies);
  ASSERT_NE(offered, nullptr);
  EXPECT_EQ(offered->assumed, "");
}

TEST(Remedies, ADriveElsewhereIsOfferedWithItsRates) {
  PlanQuestion question = more_than_dram();
  question.possible_drive = PossibleDrive{.read = {3e9}, .write = {1.5e9}};
  const PlanAnswer answer = make_plan(question);
  const Remedy* offered = drive_among(std::get<DoesNotFit>(answer).remedies);
  ASSERT_NE(offered, nullptr);
  EXPECT_TRUE(offered->change.ends_with("MiB, read: 3 GB/s, write: 1.5 GB/s}"));
  question.possible_drive.reset();
  const PlanAnswer without = make_plan(question);
  EXPECT_EQ(drive_among(std::get<DoesNotFit>(without).remedies), nullptr);
}

TEST(Remedies, DrivesThatAreTooSmallAreSaidToBe) {
  PlanQuestion question = more_than_dram();
  question.machine.drives = {{.name = "ssd0", .capacity = 4_KiB, .read = {3e9}, .write = {1.5e9}}};
  question.drive_budget_source = "budget.drive, job.yaml:9";
  question.drive_budgets = {
      {.path = "/ssd", .capacity = 4_KiB, .read = 3e9, .write = 1.5e9, .held = true}};
  const PlanAnswer answer = make_plan(question);
  const auto& lacking = std::get<DoesNotFit>(answer);
  EXPECT_EQ(lacking.place, "ssd0");
  EXPECT_EQ(lacking.limit_source, "budget.drive, job.yaml:9");
  const Remedy* offered = drive_among(lacking.remedies);
  ASSERT_NE(offered, nullptr);
  const Bytes enough = round_up(lacking.need, 1_MiB);
  EXPECT_EQ(offered->change, "budget.drive: {path: /ssd, capacity: " + bytes_text(enough) +
                                 ", read: 3 GB/s, write: 1.5 GB/s, held: true}")
      << "all but the capacity stays";
}

TEST(Remedies, OneSizeOfSeveralDrivesIsRaisedForAll) {
  PlanQuestion question = more_than_dram();
  const Drive small{.name = "ssd0", .capacity = 4_KiB, .read = {3e9}, .write = {1.5e9}};
  question.machine.drives = {small, small};
  question.machine.drives[1].name = "ssd1";
  question.drive_budget_source = "budget.drive, job.yaml:9";
  question.drive_budgets = {{.capacity = 4_KiB}};
  const PlanAnswer answer = make_plan(question);
  const Remedy* offered = drive_among(std::get<DoesNotFit>(answer).remedies);
  ASSERT_NE(offered, nullptr);
  const Bytes each = parse_bytes(offered->change.substr(std::string("budget.drive: ").size()));
  for (Drive& drive : question.machine.drives) drive.capacity = each;
  EXPECT_EQ(must_fit(question).expected, offered->step);
}

// A budget below the memory that there is would hide what is bought.
TEST(Remedies, AHostToBuyComesWithItsBudget) {
  PlanQuestion question = sample_question({.layers = 6, .hidden = 64}, {}, 2);
  question.strategy = "mobius";
  question.machine.host.memory = Bytes{states_of(question).count / 2};
  question.host_budget = Bytes{states_of(question).count / 4};
  set_device_budgets(question, Bytes{states_of(question).count / 4});
  question.possible_drive.reset();
  const PlanAnswer answer = make_plan(question);
  std::string said;
  for (const Remedy& remedy : std::get<DoesNotFit>(answer).remedies) said += remedy.change + "\n";
  EXPECT_NE(said.find("a host of "), std::string::npos) << said;
  EXPECT_NE(said.find(", budget.host: "), std::string::npos) << said;
}

TEST(Remedies, WhatTheJobSaysOfItsStrategyIsNotForAll) {
  PlanQuestion question = sample_question({.layers = 6, .hidden = 64}, {.devices = 2}, 2);
  question.strategy = "1f1b";
  question.options.map = MapRule::v;
  set_device_budgets(question, 10_KiB);
  EXPECT_TRUE(std::holds_alternative<DoesNotFit>(make_plan(question)));
}

TEST(Remedies, AnotherStrategyIsOneOfThem) {
  PlanQuestion question = sample_question({.layers = 6, .hidden = 64}, {}, 2);
  question.strategy = "resident";
  set_device_budgets(question, {states_of(question).count * 7 / 8});
  const PlanAnswer answer = make_plan(question);
  bool offered = false;
  for (const Remedy& remedy : std::get<DoesNotFit>(answer).remedies) {
    offered = offered || remedy.change == "strategy: auto";
  }
  EXPECT_TRUE(offered);
}

}  // namespace
}  // namespace ferry
