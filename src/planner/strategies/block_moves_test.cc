#include "planner/strategies/block_moves.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "plan/verify.h"
#include "planner/costs/estimate.h"
#include "planner/sample_questions.h"
#include "planner/strategies/homes.h"
#include "planner/write/edges.h"
#include "planner/write/sample_schedules.h"
#include "planner/write/stream_plan.h"

namespace ferry {
namespace {

constexpr BlockMoves::May kAll = {.policies = true, .borders = true, .ahead = true};

PlanQuestion sample(std::mt19937& random) {
  const int devices = 1 + static_cast<int>(random() % 3);
  PlanQuestion question = sample_question({.tied = random() % 2 == 0, .layers = 3},
                                          {.devices = devices}, 1 + static_cast<int>(random() % 4));
  for (BlockProfile& block : question.profile.blocks) block.saved = block.activation * 4;
  question.clips = random() % 2 == 0;
  return question;
}

/// Nothing is at home on devices, and every block recomputes.
StreamSchedule bare_schedule(const PlanQuestion& question, const Chain& chain,
                             std::mt19937& random) {
  StreamSchedule schedule;
  schedule.strategy = "mobius";
  schedule.devices = static_cast<int>(question.machine.devices.size());
  schedule.visits = random_visits(chain, schedule.devices, question.micro_batches, random);
  schedule.policies.resize(chain.size(), ActivationPolicy::recompute);
  schedule.chosen_homes.resize(chain.size());
  return schedule;
}

TEST(BlockMoves, NeighboursOfNeighboursAreVerifiedPlans) {
  for (unsigned seed = 0; seed < random_share(40); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const PlanQuestion question = sample(random);
    const Chain chain = make_chain(question);
    StreamSchedule schedule = bare_schedule(question, chain, random);
    const StreamSchedule bare = schedule;
    BlockMoves moves(chain, {true, true, question.clips}, seed);
    for (int i = 0; i < 30; ++i) {
      schedule = moves.neighbour(schedule);
      schedule.homes = schedule.chosen_homes;
      Plan plan = write_stream_plan(question, chain, schedule);
      order_accesses(plan);
      const std::optional<Violation> violation = verify(plan);
      ASSERT_FALSE(violation) << violation->message;
    }
    EXPECT_NE(schedule.homes, bare.homes);
  }
}

TEST(BlockMoves, EqualSeedsGiveEqualNeighbours) {
  std::mt19937 random(1);
  const PlanQuestion question = sample(random);
  const Chain chain = make_chain(question);
  StreamSchedule one = bare_schedule(question, chain, random);
  StreamSchedule other = one, third = one;
  BlockMoves of_one(chain, kAll, 5), of_other(chain, kAll, 5), of_third(chain, kAll, 6);
  for (int i = 0; i < 20; ++i) {
    one = of_one.neighbour(one);
    other = of_other.neighbour(other);
    third = of_third.neighbour(third);
    EXPECT_EQ(one.chosen_homes, other.chosen_homes);
    EXPECT_EQ(one.visits, other.visits);
  }
  EXPECT_NE(one.chosen_homes, third.chosen_homes);
}

TEST(BlockMoves, WhatMayNotChangeStays) {
  std::mt19937 random(2);
  const PlanQuestion question = sample(random);
  const Chain chain = make_chain(question);
  const StreamSchedule first = bare_schedule(question, chain, random);
  BlockMoves moves(chain, {}, 3);
  StreamSchedule schedule = first;
  for (int i = 0; i < 100; ++i) schedule = moves.neighbour(schedule);
  EXPECT_NE(schedule.chosen_homes, first.chosen_homes);
  EXPECT_EQ(schedule.policies, first.policies);
  EXPECT_EQ(schedule.visits, first.visits);
  EXPECT_EQ(schedule.updates_ahead, first.updates_ahead);
  EXPECT_EQ(schedule.again_from, first.again_from);
  EXPECT_EQ(schedule.leaving, first.leaving);
  EXPECT_EQ(schedule.staging, first.staging);
}

// Where the norm comes first the head always runs backward again.
TEST(BlockMoves, FromWhichBlockOnBackwardsRunAgainChanges) {
  std::mt19937 random(4);
  PlanQuestion question = sample(random);
  question.clips = true;
  question = with_norm_first(question);
  const Chain chain = make_chain(question);
  StreamSchedule schedule = bare_schedule(question, chain, random);
  BlockMoves moves(chain, {.borders = true, .again = true}, 4);
  std::set<int> seen;
  for (int i = 0; i < 200; ++i) {
    schedule = moves.neighbour(schedule);
    seen.insert(schedule.again_from);
    schedule.homes = schedule.chosen_homes;
    Plan plan = write_stream_plan(question, chain, schedule);
    order_accesses(plan);
    const std::optional<Violation> violation = verify(plan);
    ASSERT_FALSE(violation) << violation->message;
  }
  EXPECT_GT(seen.size(), 3U);
  EXPECT_GE(*seen.begin(), 0);
  EXPECT_LT(*seen.rbegin(), static_cast<int>(chain.size()));
}

PlanQuestion question_with_drive() {
  PlanQuestion question = sample_question({.layers = 6, .hidden = 256}, {}, 1);
  question.machine.drives = {{.name = "ssd0", .capacity = 1_GiB, .read = {2e9}, .write = {1e9}}};
  question.clips = false;
  return question;
}

TEST(BlockMoves, WhatRestsOnDrivesAndTheRoomItPassesThroughChange) {
  const PlanQuestion question = question_with_drive();
  const Chain chain = make_chain(question);
  std::mt19937 random(3);
  StreamSchedule schedule = bare_schedule(question, chain, random);
  Bytes all;
  for (const ChainBlock& block : chain.blocks) all += block.weights + block.states;
  const auto rest = [&] {
    schedule.homes = schedule.chosen_homes;
    rest_by_value(question, chain, {.all = all, .inputs = {}}, Bytes{all.count / 2}, schedule);
  };
  const auto on_drives = [&] {
    std::vector<BlockId> blocks;
    for (const BlockId b : chain.blocks.ids()) {
      if (home_of_block(schedule, b).state_on_drive) blocks.push_back(b);
    }
    return blocks;
  };
  rest();
  const StreamSchedule first = schedule;
  BlockMoves moves(chain, {.drives = true}, 5);
  std::set<std::vector<BlockId>> resting = {on_drives()};
  std::set<int> rooms = {first.staging.states};
  for (int i = 0; i < 200; ++i) {
    schedule = moves.neighbour(schedule);
    schedule.chosen_homes = first.chosen_homes;  // so that nothing else changes what rests where
    rest();
    resting.insert(on_drives());
    rooms.insert(schedule.staging.states);
    if (i % 20 > 0) continue;
    Plan plan = write_stream_plan(question, chain, schedule);
    order_accesses(plan);
    const std::optional<Violation> violation = verify(plan);
    ASSERT_FALSE(violation) << violation->message;
  }
  EXPECT_GT(resting.size(), 5U);
  EXPECT_GT(rooms.size(), 2U);
  EXPECT_GE(*rooms.begin(), 1);
  EXPECT_TRUE(std::ranges::is_permutation(schedule.leaving, deepest_first(chain)));
}

TEST(BlockMoves, SumsOfBlocksOnDrivesWaitInPlaceOfAWholeBlock) {
  const PlanQuestion question = question_with_drive();
  const Chain chain = make_chain(question);
  std::mt19937 random(3);
  StreamSchedule schedule = bare_schedule(question, chain, random);
  schedule.chosen_homes[1] = {.on_device = true};
  schedule.homes = schedule.chosen_homes;
  for (int b = 6; b < 12; ++b) schedule.homes[b].state_on_drive = true;
  BlockMoves moves(chain, {.drives = true}, 5);
  int waited = 0;
  for (int i = 0; i < 200; ++i) {
    const StreamSchedule turned = moves.neighbour(schedule);
    int waiting = 0;
    for (int b = 6; b < 12; ++b) waiting += turned.chosen_homes[b].sum_waits ? 1 : 0;
    if (!turned.chosen_homes[1].on_device && waiting >= 2) ++waited;
  }
  EXPECT_GT(waited, 5);
}

// On its device or in DRAM, or no more.
TEST(BlockMoves, ASumOfABlockOnDrivesWaitsInEitherPlace) {
  const PlanQuestion question = question_with_drive();
  const Chain chain = make_chain(question);
  std::mt19937 random(3);
  StreamSchedule schedule = bare_schedule(question, chain, random);
  schedule.parts_states = true;
  schedule.chosen_homes[7] = {.sum_waits = true};
  schedule.chosen_homes[8] = {.sum_waits_in_dram = true};
  schedule.homes = schedule.chosen_homes;
  for (int b = 6; b < 12; ++b) schedule.homes[b].state_on_drive = true;
  BlockMoves moves(chain, {.drives = true}, 5);
  std::set<std::tuple<int, bool, bool>> seen;  // block, on its device, in DRAM
  for (int i = 0; i < 500; ++i) {
    const StreamSchedule turned = moves.neighbour(schedule);
    for (int b = 0; b < 12; ++b) {
      const BlockHome& home = turned.chosen_homes[b];
      EXPECT_FALSE(home.sum_waits && home.sum_waits_in_dram);
      seen.emplace(b, home.sum_waits, home.sum_waits_in_dram);
    }
  }
  EXPECT_TRUE(seen.contains({6, true, false}));
  EXPECT_TRUE(seen.contains({6, false, true}));
  EXPECT_TRUE(seen.contains({7, false, false}));
  EXPECT_TRUE(seen.contains({8, false, false}));
}

TEST(BlockMoves, ADeviceThatGivesWayEndsWithNothing) {
  const PlanQuestion question =
      with_estimated_profile(sample_question({.layers = 3}, {.devices = 2}, 2));
  const Chain chain = make_chain(question);
  std::mt19937 random(4);
  StreamSchedule schedule = bare_schedule(question, chain, random);
  for (int b = 0; b < static_cast<int>(chain.size()); ++b) {
    schedule.chosen_homes[b] = b % 2 == 0 ? BlockHome{.on_device = true}
                                          : BlockHome{.weight_stays = true, .sum_waits = true};
  }
  schedule.policies = keep_all(chain, kept_slots(chain, schedule));
  schedule.activation_slots = 9;
  BlockMoves moves(chain, kAll, 3);
  for (int i = 0; i < 400; ++i) moves.give_way(schedule, 1);
  EXPECT_EQ(schedule.activation_slots, kLeastActivationSlots);
  const std::vector<bool> runs = blocks_on(chain, schedule, 1);
  ASSERT_TRUE(std::ranges::find(runs, true) != runs.end());
  ASSERT_TRUE(std::ranges::find(runs, false) != runs.end());
  for (int b = 0; b < static_cast<int>(chain.size()); ++b) {
    SCOPED_TRACE(b);
    EXPECT_EQ(schedule.chosen_homes[b] == BlockHome{}, runs[b]);
    if (runs[b]) {
      EXPECT_NE(schedule.policies[b], ActivationPolicy::keep);
    }
  }
}

}  // namespace
}  // namespace ferry
