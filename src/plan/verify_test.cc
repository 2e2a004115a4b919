#include "plan/verify.h"

#include <gtest/gtest.h>

#include "plan/sample_plans.h"

namespace ferry {
namespace {

std::string found_in(const Plan& plan) {
  const auto violation = verify(plan);
  if (!violation) return "nothing";
  return std::to_string(static_cast<int>(violation->rule)) + ": " + violation->message;
}

TEST(Verify, AcceptsTheSamples) {
  for (const auto mode : {PlanMode::train, PlanMode::evaluate}) {
    for (const bool tied : {false, true}) {
      for (const int micro_batches : {1, 2, 3}) {
        for (const int devices : {1, 2, 3}) {
          SampleShape shape;
          shape.layers = 3;
          shape.mode = mode;
          shape.tied = tied;
          shape.micro_batches = micro_batches;
          shape.devices = devices;
          EXPECT_EQ(found_in(sample_mobius(shape)), "nothing");
          shape.devices = 1;
          EXPECT_EQ(found_in(sample_resident(shape)), "nothing");
        }
      }
    }
  }
}

}  // namespace
}  // namespace ferry
