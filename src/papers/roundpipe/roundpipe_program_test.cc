#include "papers/roundpipe/roundpipe_program.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "papers/papers.h"
#include "papers/timing/program_questions.h"
#include "planner/sample_questions.h"

namespace ferry {
namespace {

// L layers of (1, 3), a head of (2, 6), 8 devices, 16 micro-batches.
PlanQuestion section_13(int layers) {
  Profile profile = equal_profile(layers + 1, 1, 3);
  BlockProfile head = profile.blocks.front();
  head.key = "head";
  head.forward = {2};
  head.backward = {6};
  profile.blocks.push_back(head);
  profile.chain.back() = 1;
  return pure_question("roundpipe", 8, 16, profile);
}

TEST(RoundPipeProgram, TheTableComesThroughTheStrategy) {
  struct Row {
    int layers;
    std::size_t stages;
    double steady, first;
  };
  for (const Row& row :
       {Row{24, 17, 0.000, 0.171}, Row{32, 23, 0.029, 0.146}, Row{36, 25, 0.000, 0.123},
        Row{48, 33, 0.000, 0.096}, Row{64, 44, 0.008, 0.077}}) {
    PlanQuestion question = section_13(row.layers);
    const Planned flushed = must_fit(question, papers::answer);
    EXPECT_EQ(flushed.report.stages.size(), row.stages);
    EXPECT_EQ(flushed.report.figures.at("t_max"), 6);
    EXPECT_NEAR(flushed.report.figures.at("bubble"), row.first, 5e-4);
    EXPECT_NEAR(flushed.prediction.step.count, flushed.report.figures.at("makespan"), 1e-9);
    question.papers.flush = false;
    const Planned flowing = must_fit(question, papers::answer);
    EXPECT_NEAR(flowing.report.figures.at("bubble"), row.steady, 5e-4);
    // The plan flows as the dispatch does: from a cold start its first cycle ends where
    // dispatch_ends() says, so it is no faster than the steady state.
    const double steps = flowing.report.figures.at("steps_in_plan");
    EXPECT_GE(flowing.prediction.first_step.count, steps * flowing.prediction.step.count - 1e-9);
    EXPECT_EQ(flowing.report.figures.at("staleness_max"), 1);
  }
}

TEST(RoundPipeProgram, AnAskedCutIsTaken) {
  PlanQuestion question = section_13(24);
  question.options.stages = std::vector<int>{6, 6, 6, 6};
  question.options.backward_stages = std::vector<int>{1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2};
  const Planned planned = must_fit(question, papers::answer);
  EXPECT_EQ(planned.report.stages.size(), 17U);
  EXPECT_NEAR(planned.report.figures.at("bubble"), 0.171, 5e-4);
  EXPECT_EQ(planned.report.stages[4].direction, Direction::fused);
  EXPECT_EQ(planned.report.stages[4].first, 24);
  question.options.backward_stages = std::vector<int>{1, 2};
  EXPECT_THROW(papers::answer(question), UserError);
  question.options.backward_stages = std::nullopt;  // cut alike
  question.options.stages = std::vector<int>{8, 8, 8, 1};
  const Planned alike = must_fit(question, papers::answer);
  ASSERT_EQ(alike.report.stages.size(), 7U);
  EXPECT_EQ(alike.report.stages[3].direction, Direction::fused);
  EXPECT_EQ(alike.report.stages[4].first, 16);
}

TEST(RoundPipeProgram, SearchRanksBySimulationInTheModeThatRuns) {
  for (const bool flush : {true, false}) {
    PlanQuestion question = section_13(32);
    for (BlockProfile& block : question.profile.blocks) {
      block.weights = block.gradients = Bytes{static_cast<std::int64_t>(block.forward.count)};
    }
    for (MachineDevice& device : question.machine.devices) device.memory = 40_B;
    question.papers.flush = flush;
    const double printed = must_fit(question, papers::answer).prediction.step.count;
    question.options.partition = Partitioner::search;
    const Planned searched = must_fit(question, papers::answer);
    EXPECT_LE(searched.prediction.step.count, printed + 1e-9);
    if (flush) continue;
    EXPECT_LT(searched.report.figures.at("bubble"), 0.045);
  }
}

TEST(RoundPipeProgram, ALayerBeyondHalfTheMemoryIsAShortage) {
  PlanQuestion question = section_13(24);
  question.profile.blocks.front().weights = 600_B;
  for (MachineDevice& device : question.machine.devices) device.memory = 1000_B;
  EXPECT_TRUE(std::holds_alternative<DoesNotFit>(papers::answer(question)));
}

}  // namespace
}  // namespace ferry
