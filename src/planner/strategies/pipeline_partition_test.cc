#include "planner/strategies/pipeline_partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "planner/sample_questions.h"
#include "planner/write/pipeline_plan.h"

namespace ferry {
namespace {

double costliest(const std::vector<int>& ends, const StageCost& cost) {
  double most = 0;
  int first = 0;
  for (std::size_t s = 0; s < ends.size(); ++s) {
    most = std::max(most, cost(static_cast<int>(s), first, ends[s]));
    first = ends[s];
  }
  return most;
}

/// The least over all cuts, one by one.
double brute_force(int blocks, int stages, const StageCost& cost) {
  double least = std::numeric_limits<double>::infinity();
  for (unsigned cuts = 0; cuts < (1U << (blocks - 1)); ++cuts) {
    std::vector<int> ends;
    for (int b = 1; b < blocks; ++b) {
      if ((cuts >> (b - 1) & 1U) != 0) ends.push_back(b);
    }
    ends.push_back(blocks);
    if (static_cast<int>(ends.size()) == stages) least = std::min(least, costliest(ends, cost));
  }
  return least;
}

TEST(PipelinePartition, NoCutHasACheaperCostliestStage) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    const int blocks = 1 + static_cast<int>(random() % 9);
    const int stages = 1 + static_cast<int>(random() % static_cast<unsigned>(blocks));
    std::vector<double> work, weight;
    for (int b = 0; b < blocks; ++b) work.push_back(static_cast<double>(1 + random() % 20));
    for (int s = 0; s < stages; ++s) weight.push_back(static_cast<double>(1 + random() % 3));
    const double limit = static_cast<double>(20 + random() % 60);
    const StageCost cost = [&](int stage, int first, int end) {
      double sum = 0;
      for (int b = first; b < end; ++b) sum += work[static_cast<std::size_t>(b)];
      sum *= weight[static_cast<std::size_t>(stage)];
      return sum > limit ? std::numeric_limits<double>::infinity() : sum;
    };
    const std::vector<int> ends = least_costliest(blocks, stages, cost);
    const double least = brute_force(blocks, stages, cost);
    ASSERT_EQ(ends.empty(), least == std::numeric_limits<double>::infinity());
    if (ends.empty()) continue;
    EXPECT_EQ(costliest(ends, cost), least);
    EXPECT_EQ(ends.back(), blocks);
  }
}

// Four equal blocks and a light one: beside the pair that sets the pace the rest is even.
TEST(PipelinePartition, TiesGoToTheEvenestCut) {
  const std::vector<double> work = {4, 4, 2, 2, 2, 2};
  const std::vector<int> ends = least_costliest(6, 3, [&](int, int first, int end) {
    double sum = 0;
    for (int b = first; b < end; ++b) sum += work[static_cast<std::size_t>(b)];
    return sum;
  });
  EXPECT_EQ(ends, (std::vector<int>{1, 3, 6}));
}

// The formula steers the search; that it agrees with the writer keeps the search honest.
TEST(PipelinePartition, TheNeedOfAStageIsWhatItsPlanTakes) {
  for (const bool tied : {false, true}) {
    for (const int micro_batches : {1, 2, 5}) {
      SampleMachine machine;
      machine.devices = 3;
      const PlanQuestion question =
          sample_question({.tied = tied, .layers = 4, .hidden = 64}, machine, micro_batches);
      const Chain chain = make_chain(question);
      const std::vector<int> ends = {4, 8, static_cast<int>(chain.size())};
      const std::vector<int> devices = {0, 1, 2};
      const Pipeline pipeline = cut_pipeline(chain, ends, devices, micro_batches);
      const DeviceOrders orders = pipeline_orders(OrderRule::one_f_one_b, pipeline);
      const Plan plan = write_pipeline_plan(
          question, chain, {ends, devices, sequence_of(pipeline, orders), 0}, "1f1b");
      const StageMemory memory(question, chain);
      const std::vector<int> in_flight = stages_in_flight(pipeline, orders);
      int first = 0;
      for (int s = 0; s < 3; ++s) {
        const auto stage = static_cast<std::size_t>(s);
        const auto need =
            static_cast<double>(memory.need(first, ends[stage], in_flight[stage]).count);
        const auto taken = static_cast<double>(peak_bytes(plan, s).count);
        EXPECT_LE(taken, need * 1.01) << "stage " << s;
        EXPECT_GE(taken, need * 0.97) << "stage " << s;
        first = ends[stage];
      }
    }
  }
}

}  // namespace
}  // namespace ferry
