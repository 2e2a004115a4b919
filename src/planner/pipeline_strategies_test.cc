#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "plan/verify.h"
#include "planner/planner.h"
#include "planner/sample_questions.h"

namespace ferry {
namespace {

constexpr const char* kPipelines[] = {"gpipe", "1f1b", "interleaved", "mixed-pipe"};

// Weights and states at rest, with where they are.
std::vector<std::string> homes_of(const Plan& plan) {
  std::vector<std::string> result;
  for (const Instance& instance : plan.instances) {
    if (!instance.home) continue;
    result.push_back(value_name(plan.values[static_cast<std::size_t>(instance.value)]) + "@" +
                     plan.places[static_cast<std::size_t>(instance.place)].name + "+" +
                     std::to_string(instance.offset.count));
  }
  return result;
}

TEST(Pipelines, EveryAnswerHoldsWhatItPromises) {
  int planned_ones = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    for (const char* strategy : kPipelines) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " " + strategy);
      PlanQuestion question = random_question(seed);
      question.strategy = strategy;
      question.device_budget.count *= 3;
      question.clips = seed % 2 == 0;
      const PlanAnswer answer = make_plan(question);
      if (const auto* lacking = std::get_if<DoesNotFit>(&answer)) {
        EXPECT_GT(lacking->need, lacking->have);
        continue;
      }
      ++planned_ones;
      const Planned& planned = std::get<Planned>(answer);
      const auto violation = verify(planned.plan);
      EXPECT_FALSE(violation) << violation->message;
      EXPECT_GE(planned.prediction.step.count * (1 + 1e-9), planned.lower_bound.count);
      for (std::size_t p = 0; p < planned.plan.places.size(); ++p) {
        EXPECT_LE(planned.prediction.peak[p], planned.plan.places[p].budget);
      }
    }
  }
  EXPECT_GT(planned_ones, 200);
}

}  // namespace
}  // namespace ferry
