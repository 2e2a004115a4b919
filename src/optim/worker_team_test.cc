#include "optim/worker_team.h"

#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>

namespace ferry {
namespace {

TEST(WorkerTeam, EveryIndexIsWorkedOnOnce) {
  for (const int threads : {1, 2, 3, 7}) {
    WorkerTeam team(threads);
    EXPECT_EQ(team.threads(), threads);
    for (const std::size_t count : {0U, 1U, 2U, 1000U}) {
      std::vector<int> calls(count);
      team.for_each(count, [&](std::size_t i) { ++calls[i]; });
      EXPECT_EQ(calls, std::vector<int>(count, 1));
    }
  }
}

TEST(WorkerTeam, ManyShortLoopsInARowLoseNothing) {
  WorkerTeam team(3);
  std::vector<int> calls(4);
  for (int round = 0; round < 2000; ++round) {
    team.for_each(calls.size(), [&](std::size_t i) { ++calls[i]; });
  }
  EXPECT_EQ(calls, std::vector<int>(4, 2000));
}

TEST(WorkerTeam, TheFirstErrorReachesTheCallerAndTheTeamLivesOn) {
  WorkerTeam team(3);
  const auto fail = [](std::size_t i) {
    if (i == 5) throw std::runtime_error("index 5");
  };
  for (int round = 0; round < 50; ++round) EXPECT_THROW(team.for_each(8, fail), std::runtime_error);
  std::atomic<int> calls = 0;
  team.for_each(8, [&](std::size_t) { ++calls; });
  EXPECT_EQ(calls, 8);
}

TEST(WorkerTeam, CallersFromSeveralThreadsTakeTurns) {
  WorkerTeam team(2);
  std::vector<int> sums(3);
  {
    std::vector<std::jthread> callers;
    for (int& sum : sums) {
      callers.emplace_back([&team, &sum] {
        for (int round = 0; round < 100; ++round) {
          std::vector<int> parts(10);
          team.for_each(10, [&](std::size_t i) { parts[i] = 1; });
          sum += std::accumulate(parts.begin(), parts.end(), 0);
        }
      });
    }
  }
  EXPECT_EQ(sums, std::vector<int>(3, 1000));
}

}  // namespace
}  // namespace ferry
