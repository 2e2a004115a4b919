#include "planner/planner.h"

#include <gtest/gtest.h>

#include "plan/verify.h"
#include "planner/sample_questions.h"

namespace ferry {
namespace {

TEST(Planner, EveryAnswerHoldsWhatItPromises) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const PlanAnswer answer = make_plan(random_question(seed));
    if (const auto* lacking = std::get_if<DoesNotFit>(&answer)) {
      EXPECT_GT(lacking->need, lacking->have);
      continue;
    }
    const Planned& planned = std::get<Planned>(answer);
    const auto violation = verify(planned.plan);
    EXPECT_FALSE(violation) << violation->message;
    const Simulation& prediction = planned.prediction;
    const double step = prediction.step.count * (1 + 1e-9);
    EXPECT_GE(step, prediction.busiest.count) << prediction.busiest_name;
    EXPECT_GE(step, planned.lower_bound.count);
    EXPECT_GE(prediction.first_step.count * (1 + 1e-9), prediction.critical_path.count);
    for (std::size_t p = 0; p < planned.plan.places.size(); ++p) {
      EXPECT_LE(prediction.peak[p], planned.plan.places[p].budget);
    }
  }
}

}  // namespace
}  // namespace ferry
