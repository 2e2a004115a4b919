#include "cli/tables.h"

#include <gtest/gtest.h>

namespace ferry {
namespace {

TEST(Tables, ARunBeginsWithWhatIsTrainedOnWhat) {
  TrainSetup setup;
  setup.job.model = "out/base";
  setup.job.out = "runs/x";
  setup.job.data.sequence = 32;
  setup.job.train.steps = 1000;
  setup.job.train.micro_batches = 3;
  setup.job.train.micro_batch_size = 2;
  setup.machine.devices.emplace_back().threads = 1;
  BlockSpec block;
  block.params = {{"w", {1000, 1234}}};
  setup.model.blocks.push_back(block);
  setup.plan.precision = Precision::fp32;
  setup.predicted_step = from_seconds(30.5);
  EXPECT_EQ(start_table(setup, {.rows = 40, .tokens = 960, .learned = 480, .cut = 7}, 14_MiB),
            "model       out/base: 1,234,000 parameters, fp32, 1 thread per kernel\n"
            "data        40 rows of 32 positions: 960 tokens, 50% of them learned; 25% padding; 7 "
            "rows cut\n"
            "steps       1,000 of 6 rows, about 144 tokens each: 150 epochs, 8h28m as predicted\n"
            "checkpoint  14.0 MiB each, 2 kept: runs/x/checkpoints\n");
}

TEST(Tables, TokensPerSecondAreThoseThatAreNotPadding) {
  StepReport report;
  report.tokens = 900;
  report.step_seconds = 0.5;
  EXPECT_EQ(report.tokens_per_second(), 1800);
  EXPECT_NE(step_line(report).find("   1800 tok/s"), std::string::npos) << step_line(report);
  report.step_seconds = 0;
  EXPECT_EQ(report.tokens_per_second(), 0);
}

TEST(Tables, WhatIsLeftIsSeenOnATerminalOf80Columns) {
  StepReport report;
  report.step = 5;
  report.steps = 60;
  report.loss = 5.3914;
  report.lr = 2.99e-4;
  report.grad_norm = 2.931;
  report.tokens = 387;
  report.step_seconds = 1;
  report.seconds_left = 88;
  report.peak_bytes = {{"gpu0", 360_MiB}, {"host", 1_GiB}};
  EXPECT_EQ(step_line(report).substr(0, 80),
            "step     5/60  loss  5.3914  lr 2.99e-04  norm   2.931     387 tok/s  left 1m28s");
}

TEST(Tables, ARunEndsWithItsTokensAndTimes) {
  TrainSummary summary;
  summary.tokens = 102'400;
  summary.tokens_per_second = 1638.4;
  summary.stepping_seconds = 62;
  summary.seconds = 75;
  const std::string text = summary_table(summary, from_seconds(1));
  EXPECT_TRUE(text.ends_with("102,400 tokens in 1m02s of 1m15s, median 1638 tok/s\n")) << text;
}

TEST(Tables, ARunSaysHowManyOfItsStepsWereClipped) {
  TrainSummary summary;
  summary.steps_here = 40;
  const auto says = [&] { return summary_table(summary, from_seconds(1)); };
  EXPECT_EQ(says().find("clipped"), std::string::npos);
  summary.clipped_steps = 0;
  EXPECT_EQ(says().find("clipped"), std::string::npos);
  summary.clipped_steps = 3;
  EXPECT_NE(says().find("3 of this run's 40 steps were clipped\n"), std::string::npos);
}

}  // namespace
}  // namespace ferry
