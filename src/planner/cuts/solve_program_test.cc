#include "planner/cuts/solve_program.h"

#include <gtest/gtest.h>

namespace ferry {
namespace {

// A knapsack: weights 5, 4, 3 in 10, values 10, 7, 4. The best are the first two; of fractions,
// these and a third of the last.
LinearProgram knapsack() {
  LinearProgram program;
  LinearForm room(10);
  const double weights[] = {5, 4, 3};
  const double values[] = {10, 7, 4};
  for (int i = 0; i < 3; ++i) room.add(program.add({0, 1, -values[i], true}), -weights[i]);
  program.at_least_zero(room);
  return program;
}

TEST(SolveProgram, AKnapsackIsSolvedToItsOptimum) {
  const ProgramSolution solution = solve_program(knapsack(), {});
  EXPECT_EQ(solution.end, ProgramSolution::End::optimal);
  EXPECT_NEAR(solution.objective, -17, 1e-9);
  EXPECT_NEAR(solution.bound, -17, 1e-6);
  ASSERT_EQ(solution.columns.size(), 3U);
  EXPECT_NEAR(solution.columns[0], 1, 1e-9);
  EXPECT_NEAR(solution.columns[2], 0, 1e-9);
}

TEST(SolveProgram, TheRelaxationAllowsFractionsAndBounds) {
  ProgramLimits limits;
  limits.relaxed = true;
  const ProgramSolution solution = solve_program(knapsack(), limits);
  EXPECT_EQ(solution.end, ProgramSolution::End::optimal);
  EXPECT_NEAR(solution.bound, -17 - 4.0 / 3, 1e-9);
}

TEST(SolveProgram, AnInfeasibleProgramHasNoSolutionAndAnInfiniteBound) {
  LinearProgram program = knapsack();
  program.equals_zero(LinearForm(-2.5).add(0, 1).add(1, 1).add(2, 1));
  const ProgramSolution solution = solve_program(program, {});
  EXPECT_EQ(solution.end, ProgramSolution::End::infeasible);
  EXPECT_TRUE(solution.columns.empty());
  EXPECT_EQ(solution.bound, kUnbounded);
}

TEST(SolveProgram, ColumnsOfARowAreSummedAndItsConstantMoves) {
  LinearProgram program;
  const int x = program.add({0, 10, 1, false});
  program.at_least_zero(LinearForm(-6).add(x, 1).add(x, 2));  // 3 x >= 6
  ASSERT_EQ(program.rows().size(), 1U);
  EXPECT_EQ(program.rows()[0].terms, (std::vector<std::pair<int, double>>{{x, 3.0}}));
  EXPECT_EQ(program.rows()[0].lower, 6);
  EXPECT_NEAR(solve_program(program, {}).objective, 2, 1e-9);
}

}  // namespace
}  // namespace ferry
