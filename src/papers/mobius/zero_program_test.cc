#include "papers/mobius/zero_program.h"

#include <gtest/gtest.h>

#include "papers/papers.h"
#include "papers/timing/program_questions.h"
#include "planner/sample_questions.h"

namespace ferry {
namespace {

// `parameters` parameters in ten layers of two bytes, gradients alike.
PlanQuestion question_of(int devices, std::int64_t parameters) {
  Profile profile = equal_profile(10, 10, 30);
  profile.blocks.front().weights = {2 * parameters / 10};
  profile.blocks.front().gradients = {2 * parameters / 10};
  return pure_question("zero", devices, devices, profile);
}

// 4 P N + 2 P (N - 1) up, 6 P (N - 1) + 2 P down; Mobius about 6 P.
TEST(ZeroProgram, TrafficIsTheTables) {
  constexpr double kParameters = 8000;
  for (const int n : {1, 2, 4, 8}) {
    const PlanReport report = must_fit(question_of(n, 8000), papers::answer).report;
    const double up = report.figures.at("traffic_up_bytes");
    const double down = report.figures.at("traffic_down_bytes");
    EXPECT_EQ(up, kParameters * (4 * n + 2 * (n - 1)));
    EXPECT_EQ(down, kParameters * (6 * (n - 1) + 2));
    if (n == 4) {
      EXPECT_EQ(up + down, 42 * kParameters);
      EXPECT_EQ((up + down) / (6 * kParameters), 7.0);
      EXPECT_EQ(up / (4 * kParameters), 5.5);
    }
    if (n == 8) {
      EXPECT_EQ(up + down, 90 * kParameters);
      EXPECT_EQ((up + down) / (6 * kParameters), 15.0);
    }
  }
}

// 15 B parameters over one root complex of 13 GB/s: 25.4 s; over two, 12.7 s.
TEST(ZeroProgram, TheLinkFloorIsThePages) {
  for (const int roots : {1, 2}) {
    PlanQuestion question = question_of(4, 15'000'000'000);
    for (int r = 0; r < roots; ++r) {
      question.machine.roots.push_back({"root" + std::to_string(r), {13e9}, {13e9}});
    }
    for (std::size_t d = 0; d < 4; ++d) {
      question.machine.devices[d].up = question.machine.devices[d].down = {13e9};
      question.machine.devices[d].root = static_cast<int>(d) % roots;
    }
    const Planned planned = must_fit(question, papers::answer);
    EXPECT_NEAR(planned.report.figures.at("link_floor") * 1e-6, roots == 1 ? 25.4 : 12.7, 0.05);
    EXPECT_GE(planned.prediction.step.count, planned.report.figures.at("link_floor"));
  }
}

TEST(ZeroProgram, UpdatesFollowTheWholeBackward) {
  PlanQuestion question = question_of(2, 8000);
  const double without = must_fit(question, papers::answer).prediction.step.count;
  question.profile.blocks.front().parameters = 800;
  question.profile.update_rate = 1e6;  // one parameter per microsecond
  EXPECT_NEAR(must_fit(question, papers::answer).prediction.step.count, without + 8000, 1e-6);
}

}  // namespace
}  // namespace ferry
