#include "planner/costs/queues.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "exec/simulator.h"
#include "planner/sample_questions.h"

namespace ferry {
namespace {

/// The capacity of the pool that all of DRAM's traffic draws from.
std::optional<double> pool_of_dram(const PlanQuestion& question) {
  const auto pools = must_fit(question).plan.pools;
  const auto found = std::ranges::find(pools, "dram", &Pool::name);
  return found == pools.end() ? std::nullopt : std::optional(found->capacity);
}

// An update of 28 bytes a parameter that is known to be faster than a stream shows that DRAM is. A
// profile's does not: a block's states may have been in caches.
TEST(DramRate, IsTheStreamsOrWhatTheMachinesUpdatesDraw) {
  PlanQuestion question = sample_question({.layers = 3}, {.devices = 1, .link_rate = 1e9}, 2);
  question.profile.update_rate = 9e9;
  Host& host = question.machine.host;
  host.update_rate = 6e9;
  EXPECT_EQ(pool_of_dram(question), std::nullopt);
  for (const auto& [updates, expected] : {std::pair{2e9, 100e9}, std::pair{6e9, 168e9}}) {
    host.memory_bandwidth = Rate{100e9};
    host.update_rate = updates;
    EXPECT_EQ(dram_rate(question), expected);
    EXPECT_EQ(pool_of_dram(question), expected);
  }
}

// A GPU whose copies of one direction go one at a time, one that shares, in both directions.
TEST(Links, ServeInTurnWhereTheDeviceDoes) {
  PlanQuestion question = sample_question({.layers = 3}, {.devices = 2, .link_rate = 1e9}, 2);
  question.machine.devices[1].copies_in_turn = true;
  Plan plan;
  add_queues(plan, question, 2, nullptr);
  std::map<std::string, bool> in_turn;
  for (const Pool& pool : plan.pools) in_turn[pool.name] = pool.in_turn;
  const std::map<std::string, bool> expected = {{"cores", false},
                                                {"gpu0.up", false},
                                                {"gpu0.down", false},
                                                {"gpu1.up", true},
                                                {"gpu1.down", true}};
  EXPECT_EQ(in_turn, expected);
}

// Short copies wait for long ones there, which a search that does not know it does not avoid.
TEST(Links, APlanForOneThatServesInTurnIsFasterThereThanOneForSharedLinks) {
  for (const bool clips : {false, true}) {
    PlanQuestion question = sample_question({.layers = 6}, {.devices = 1, .link_rate = 1e8}, 4);
    question.clips = clips;
    Plan unaware = must_fit(question).plan;
    for (Pool& pool : unaware.pools) pool.in_turn = pool.name.starts_with("gpu0.");
    question.machine.devices[0].copies_in_turn = true;
    EXPECT_LT(must_fit(question).expected, simulate(unaware).step * 0.95);
  }
}

}  // namespace
}  // namespace ferry
