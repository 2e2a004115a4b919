#include "planner/costs/least_program.h"

#include <gtest/gtest.h>

#include <limits>

namespace ferry {
namespace {

TEST(LeastProgram, FindsTheLeastOfAVariable) {
  LeastProgram program;
  const auto longest = program.add(1), one = program.add(1), other = program.add(1);
  program.at_least(0, {{1, longest}, {-2, one}});
  program.at_least(0, {{1, longest}, {-3, other}});
  EXPECT_DOUBLE_EQ(program.least_of(longest), 0);
  program.at_least(10, {{1, one}, {1, other}});  // 6 and 4: both take 12
  EXPECT_NEAR(program.least_of(longest), 12, 1e-12);
  program.at_least(-5, {{-1, one}});  // no more than 5
  EXPECT_NEAR(program.least_of(longest), 15, 1e-12);
}

TEST(LeastProgram, IsTheSameInOtherUnits) {
  for (const double unit : {1e-9, 1.0, 1e12}) {
    LeastProgram program;
    const auto longest = program.add(1), one = program.add(unit), other = program.add(unit);
    program.at_least(0, {{1, longest}, {-2 / unit, one}});
    program.at_least(0, {{1, longest}, {-3 / unit, other}});
    program.at_least(10 * unit, {{1, one}, {1, other}});
    EXPECT_NEAR(program.least_of(longest), 12, 1e-11);
  }
}

TEST(LeastProgram, AlsoEndsWhereNothingMeetsAllDemands) {
  LeastProgram program;
  const auto longest = program.add(1), one = program.add(1);
  program.at_least(7, {{1, longest}});
  program.at_least(2, {{1, one}});
  program.at_least(-1, {{-1, one}});
  EXPECT_EQ(program.least_of(longest), std::numeric_limits<double>::infinity());
}

TEST(LeastProgram, EndsWhereManyDemandsMeetInOnePoint) {
  LeastProgram program;
  const auto longest = program.add(1), one = program.add(1), other = program.add(1);
  for (int slope = 1; slope <= 20; ++slope) {  // all of them hold as equalities at 1 and 1
    program.at_least(slope + 1.0, {{1.0 * slope, one}, {1, other}});
    program.at_least(0, {{1.0 * slope + 1, longest}, {-1.0 * slope, one}, {-1, other}});
  }
  EXPECT_NEAR(program.least_of(longest), 1, 1e-12);
}

}  // namespace
}  // namespace ferry
