#include "planner/costs/queues.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>

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

}  // namespace
}  // namespace ferry
