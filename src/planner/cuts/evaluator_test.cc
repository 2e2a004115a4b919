#include "planner/cuts/evaluator.h"

#include <gtest/gtest.h>

#include <limits>

#include "planner/cuts/sample_chains.h"

namespace ferry {
namespace {

constexpr double kTolerance = 1e-9;

std::vector<StageCosts> equal_stages(std::size_t count, const StageCosts& stage) {
  return std::vector<StageCosts>(count, stage);
}

StageCosts stage(double forward, double backward, double forward_memory, double backward_memory,
                 double upload) {
  StageCosts result;
  result.forward_time = forward;
  result.backward_time = backward;
  result.forward_memory = forward_memory;
  result.backward_memory = backward_memory;
  result.forward_upload = result.backward_upload = upload;
  return result;
}

TEST(Evaluator, VectorOneIsBoundByCompute) {
  const auto schedule =
      evaluate_stages(flat_problem(2, 2, 10, 1e9), equal_stages(4, stage(1, 2, 1, 2, 1)));
  EXPECT_NEAR(schedule.forward_end, 5.0, kTolerance);
  EXPECT_NEAR(schedule.step, 15.0, kTolerance);
}

TEST(Evaluator, VectorTwoIsBoundByBandwidth) {
  const auto schedule =
      evaluate_stages(flat_problem(2, 2, 10, 1), equal_stages(4, stage(1, 2, 4, 5, 4)));
  EXPECT_NEAR(schedule.forward_end, 7.0, kTolerance);
  EXPECT_NEAR(schedule.step, 17.0, kTolerance);
}

TEST(Evaluator, VectorFourPassesActivations) {
  StageCosts costs = stage(1, 2, 1, 2, 1);
  costs.activation = costs.activation_gradient = 1;
  const auto schedule = evaluate_stages(flat_problem(2, 3, 10, 2), equal_stages(4, costs));
  EXPECT_NEAR(schedule.forward_end, 7.5, kTolerance);
  EXPECT_NEAR(schedule.step, 22.0, kTolerance);
}

// Unequal stages, S = 5 not a multiple of N = 2: every start and every prefetched byte.
std::vector<StageCosts> vector_six() {
  std::vector<StageCosts> stages = {stage(1, 2, 3, 4, 2), stage(1, 3, 3, 5, 2),
                                    stage(2, 4, 4, 6, 3), stage(1, 2, 3, 4, 2),
                                    stage(2, 5, 5, 7, 4)};
  for (StageCosts& costs : stages) {
    costs.activation = 0.5;
    costs.activation_gradient = 0.25;
  }
  return stages;
}

TEST(Evaluator, VectorSixStartsAndPrefetchesAsTabled) {
  const auto schedule = evaluate_stages(flat_problem(2, 2, 8, 1), vector_six());
  const std::vector<std::vector<double>> forward = {{0, 1}, {1.5, 2.5}, {3, 5}, {5.5, 7.5}, {7, 9}};
  const std::vector<std::vector<double>> backward = {
      {31, 34.5}, {27.25, 31.25}, {23, 27}, {16.25, 21.25}, {11, 16}};
  const std::vector<double> forward_prefetch = {0, 0, 2, 2, 4};
  const std::vector<double> backward_prefetch = {2, 2, 1, 0, 0};
  ASSERT_TRUE(schedule.feasible);
  for (std::size_t j = 0; j < 5; ++j) {
    SCOPED_TRACE("stage " + std::to_string(j + 1));
    for (std::size_t m = 0; m < 2; ++m) {
      EXPECT_NEAR(schedule.forward[j][m], forward[j][m], kTolerance);
      EXPECT_NEAR(schedule.backward[j][m], backward[j][m], kTolerance);
    }
    EXPECT_NEAR(schedule.forward_prefetch[j], forward_prefetch[j], kTolerance);
    EXPECT_NEAR(schedule.backward_prefetch[j], backward_prefetch[j], kTolerance);
  }
  EXPECT_NEAR(schedule.forward_end, 11.0, kTolerance);
  EXPECT_NEAR(schedule.step, 36.5, kTolerance);
}

TEST(Evaluator, AStageLargerThanTheDeviceIsInfeasible) {
  EXPECT_FALSE(evaluate_stages(flat_problem(2, 2, 6.9, 1), vector_six()).feasible);
  EXPECT_TRUE(evaluate_stages(flat_problem(2, 2, 7.0, 1), vector_six()).feasible);
}

TEST(Evaluator, FirstLoadsDelayTheFirstStages) {
  EvaluatorProblem real = flat_problem(2, 2, 8, 1);
  real.switches.first_loads = true;
  const auto schedule = evaluate_stages(real, vector_six());
  EXPECT_NEAR(schedule.forward[0][0], 2.0, kTolerance);
  EXPECT_NEAR(schedule.step, 38.5, kTolerance);
}

TEST(Evaluator, DownloadsAndUpdatesFollowTheLastBackward) {
  EvaluatorProblem real = flat_problem(1, 1, 100, 1);
  std::vector<StageCosts> stages = equal_stages(2, stage(1, 2, 1, 1, 0));
  for (StageCosts& costs : stages) {
    costs.gradient_download = 3;
    costs.update_time = 4;
  }
  EXPECT_NEAR(evaluate_stages(real, stages).step, 6.0, kTolerance);
  real.switches.gradient_downloads = true;  // from 4 to 7 and from 7 to 10
  EXPECT_NEAR(evaluate_stages(real, stages).step, 10.0, kTolerance);
  real.switches.updates = true;  // from 7 to 11 and from 11 to 15
  EXPECT_NEAR(evaluate_stages(real, stages).step, 15.0, kTolerance);
  real.switches.updates_wait_for_all = true;  // both from 10 on
  EXPECT_NEAR(evaluate_stages(real, stages).step, 18.0, kTolerance);
}

// The first and the last micro-batch decide, whatever the costs.
TEST(Evaluator, TheStepAloneIsThatOfTheSchedule) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SampleChain chain = uneven_chain(seed, 1 + seed % 12, SampleCosts::either);
    chain.problem.micro_batches = 1 + static_cast<int>(seed % 9);
    const auto schedule = evaluate_stages(chain.problem, chain.blocks);
    const double step = step_of_stages(chain.problem, chain.blocks);
    if (schedule.feasible) {
      EXPECT_NEAR(step, schedule.step, kTolerance * schedule.step);
    } else {
      EXPECT_EQ(step, std::numeric_limits<double>::infinity());
    }
  }
}

}  // namespace
}  // namespace ferry
