#include "train/schedule.h"

#include <gtest/gtest.h>

namespace ferry {
namespace {

// Values of transformers.get_scheduler(name, num_warmup_steps=2, num_training_steps=10), lr 1.
TEST(Schedule, RatesAreThoseOfTheHuggingFaceSchedules) {
  OptimJob optim{.lr = 1.0, .warmup_steps = 2};
  optim.schedule = Schedule::constant;
  EXPECT_DOUBLE_EQ(learning_rate(optim, 0, 10), 0.0);
  EXPECT_DOUBLE_EQ(learning_rate(optim, 1, 10), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(optim, 9, 10), 1.0);
  optim.schedule = Schedule::linear;
  EXPECT_DOUBLE_EQ(learning_rate(optim, 2, 10), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(optim, 6, 10), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(optim, 9, 10), 0.125);
  optim.schedule = Schedule::cosine;
  EXPECT_DOUBLE_EQ(learning_rate(optim, 2, 10), 1.0);
  EXPECT_NEAR(learning_rate(optim, 6, 10), 0.5, 1e-15);
}

TEST(Schedule, WithoutWarmUpTheFirstStepHasTheFullRate) {
  const OptimJob optim{.lr = 3e-4, .schedule = Schedule::linear, .warmup_ratio = 0};
  EXPECT_DOUBLE_EQ(learning_rate(optim, 0, 5), 3e-4);
}

// Hugging Face's Trainer: warmup_steps = ceil(steps * warmup_ratio).
TEST(Schedule, AWarmUpByRatioIsThatPartOfAllStepsRoundedUp) {
  EXPECT_EQ(warmup_steps({.warmup_ratio = 0.03}, 100), 3);
  EXPECT_EQ(warmup_steps({.warmup_ratio = 0.03}, 101), 4);
  EXPECT_EQ(warmup_steps({.warmup_steps = 7, .warmup_ratio = 0}, 100), 7);
  const OptimJob optim{.lr = 1.0, .schedule = Schedule::linear, .warmup_ratio = 0.2};
  EXPECT_DOUBLE_EQ(learning_rate(optim, 1, 10), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(optim, 6, 10), 0.5);
}

}  // namespace
}  // namespace ferry
