#include "papers/roundpipe/roundpipe_dispatch.h"

#include <gtest/gtest.h>

#include "planner/orders/pipeline.h"

namespace ferry {
namespace {

// Layers of one second and one unit of weights, and a head worth `head` of them.
std::vector<RoundPipeLayer> layers_with_head(int layers, int head) {
  std::vector<RoundPipeLayer> result(static_cast<std::size_t>(layers), {1, 3, 1, 2});
  result.push_back({1.0 * head, 3.0 * head, 1.0 * head, 2.0 * head});
  return result;
}

// The makespan of one step of equal stages and R equal rounds:
// ceil(R S / N) M_R t + ((R S - 1) mod N) t. Exact for S >= N and M_R >= N; shorter rounds
// of the sequence run side by side.
double equal_dispatch_makespan(int devices, int stages, int rounds, int round, double stage_time) {
  const int total = rounds * stages;
  const int most = (total + devices - 1) / devices;
  return (static_cast<double>(most) * round + (total - 1) % devices) * stage_time;
}

// Equal stages, RoundPipe section 3.3.
TEST(RoundPipeDispatch, EqualStagesTakeWhatTheTableSays) {
  struct Row {
    int devices, stages, rounds, round;
    double makespan, bubble, printed;
  };
  for (const Row& row :
       {Row{4, 17, 2, 4, 37, 0.081081, 0.081081}, Row{4, 17, 2, 6, 55, 0.072727, 0.055556},
        Row{4, 16, 2, 6, 51, 0.058824, 0.058824}, Row{8, 27, 2, 8, 61, 0.114754, 0.114754},
        Row{8, 27, 2, 9, 68, 0.106618, 0.103321}, Row{3, 7, 3, 4, 30, 0.066667, 0.066667}}) {
    const RoundPipeDispatch dispatch{
        row.devices, std::vector<double>(static_cast<std::size_t>(row.stages), 1.0),
        std::vector<int>(static_cast<std::size_t>(row.rounds), row.round)};
    const double makespan = dispatch_ends(dispatch, 1).front();
    EXPECT_EQ(makespan, row.makespan);
    EXPECT_EQ(equal_dispatch_makespan(row.devices, row.stages, row.rounds, row.round, 1),
              row.makespan);
    EXPECT_NEAR(dispatch_bubble(dispatch, makespan), row.bubble, 5e-7);
    // The paper's formula, which rounds of other sizes miss: N (N - 1) / (S M + N (N - 1)).
    const double fill = row.devices * (row.devices - 1.0);
    EXPECT_NEAR(fill / (row.stages * row.rounds * row.round + fill), row.printed, 5e-7);
  }
}

TEST(RoundPipeDispatch, TheClosedFormIsExactForEqualStages) {
  for (int devices = 1; devices <= 8; ++devices) {
    for (int stages = devices; stages <= 24; ++stages) {
      for (int rounds = 1; rounds <= 3; ++rounds) {
        for (int round = devices; round <= devices + 3; ++round) {
          const RoundPipeDispatch dispatch{
              devices, std::vector<double>(static_cast<std::size_t>(stages), 1.0),
              std::vector<int>(static_cast<std::size_t>(rounds), round)};
          ASSERT_EQ(dispatch_ends(dispatch, 1).front(),
                    equal_dispatch_makespan(devices, stages, rounds, round, 1));
        }
      }
    }
  }
}

// RoundPipe section 4.4: L layers of (1, 3) and a head of (2, 6), 8 devices, two rounds
// of 8, cut by the printed cost.
TEST(RoundPipeDispatch, UnequalStagesHaveTheTablesBubbles) {
  struct Row {
    int layers;
    std::size_t stages;
    double steady, first;
  };
  for (const Row& row :
       {Row{24, 17, 0.000, 0.171}, Row{32, 23, 0.029, 0.146}, Row{36, 25, 0.000, 0.123},
        Row{48, 33, 0.000, 0.096}, Row{64, 44, 0.008, 0.077}}) {
    const auto partition =
        roundpipe_partitions({.devices = 8, .micro_batches = 16}, layers_with_head(row.layers, 2))
            .front();
    EXPECT_EQ(partition.t_max, 6);
    EXPECT_EQ(partition.stages.size(), row.stages);
    const RoundPipeDispatch dispatch{8, stage_times(partition), {8, 8}};
    EXPECT_NEAR(dispatch_bubble(dispatch, steady_step(dispatch)), row.steady, 5e-4);
    EXPECT_NEAR(dispatch_bubble(dispatch, dispatch_ends(dispatch, 1).front()), row.first, 5e-4);
  }
}

// With memory for less than the whole model: else S t_max is least with one stage of everything.
TEST(RoundPipeDispatch, WithoutAFlushTheSteadyCostCutsBetter) {
  const auto layers = layers_with_head(28, 3);
  const auto best = [&](RoundPipeCost cost) {
    return roundpipe_partitions({.devices = 8, .micro_batches = 16, .memory = 30, .cost = cost},
                                layers)
        .front();
  };
  const auto bubble = [](const RoundPipePartition& partition) {
    const RoundPipeDispatch dispatch{8, stage_times(partition), {8, 8}};
    return dispatch_bubble(dispatch, steady_step(dispatch));
  };
  const RoundPipePartition printed = best(RoundPipeCost::printed);
  EXPECT_EQ(printed.t_max, 9);
  EXPECT_EQ(printed.stages.size(), 15U);
  EXPECT_NEAR(bubble(printed), 0.104, 5e-4);
  const RoundPipePartition steady = best(RoundPipeCost::steady);
  EXPECT_EQ(steady.t_max, 24);
  EXPECT_EQ(steady.stages.size(), 5U);
  // The mean over steps 5 to 8; five steps repeat, and over all of them it is 1 - 232 / 238.8.
  const RoundPipeDispatch dispatch{8, stage_times(steady), {8, 8}};
  const std::vector<double> ends = dispatch_ends(dispatch, 8);
  EXPECT_NEAR(dispatch_bubble(dispatch, (ends[7] - ends[3]) / 4), 0.030, 5e-4);
  EXPECT_NEAR(bubble(steady), 1 - 232 / 238.8, 1e-12);
}

// Below 4.5 %, as RoundPipe prints, without a flush when ranked by simulation. A device holds at
// most the weights and gradients of 12 layers for a stage.
TEST(RoundPipeDispatch, RankedBySimulationTheSteadyBubbleIsBelowTheBand) {
  for (int layers = 24; layers <= 64; layers += 4) {
    for (int head = 1; head <= 4; ++head) {
      const RoundPipeChoice choice = search_roundpipe(
          {.problem = {.devices = 8, .micro_batches = 16, .memory = 24}, .flush = false},
          layers_with_head(layers, head));
      const RoundPipeDispatch dispatch{8, stage_times(choice.partition), choice.rounds};
      EXPECT_LT(dispatch_bubble(dispatch, choice.step), 0.045)
          << layers << " layers, head " << head << " t_max " << choice.partition.t_max << " rounds "
          << choice.rounds.size();
    }
  }
}

TEST(RoundPipeDispatch, RankingBySimulationNeverLosesToTheCosts) {
  const auto chain = layers_with_head(28, 3);
  for (const bool flush : {true, false}) {
    const RoundPipeChoice choice =
        search_roundpipe({.problem = {.devices = 8, .micro_batches = 16}, .flush = flush}, chain);
    for (const RoundPipeCost cost : {RoundPipeCost::printed, RoundPipeCost::steady}) {
      const auto partition =
          roundpipe_partitions({.devices = 8, .micro_batches = 16, .cost = cost}, chain).front();
      const RoundPipeDispatch dispatch{8, stage_times(partition), {8, 8}};
      EXPECT_LE(choice.step, flush ? dispatch_ends(dispatch, 1).front() : steady_step(dispatch));
    }
  }
}

TEST(RoundPipeDispatch, RoundsAreEven) {
  EXPECT_EQ(even_rounds(16, 8), (std::vector<int>{8, 8}));
  EXPECT_EQ(even_rounds(17, 8), (std::vector<int>{9, 8}));
  EXPECT_EQ(even_rounds(3, 8), (std::vector<int>{3}));
}

}  // namespace
}  // namespace ferry
