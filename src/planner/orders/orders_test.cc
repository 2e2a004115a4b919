#include "planner/orders/orders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/error.h"
#include "planner/cuts/mapping.h"
#include "planner/orders/list_schedule.h"

namespace ferry {
namespace {

Pipeline equal_pipeline(int devices, int chunks, int micro_batches) {
  Pipeline pipeline;
  pipeline.devices = devices;
  pipeline.micro_batches = micro_batches;
  pipeline.device = cyclic_map(devices * chunks, devices);
  pipeline.forward.assign(pipeline.device.size(), 1.0);
  pipeline.backward.assign(pipeline.device.size(), 3.0);
  return pipeline;
}

double reached(OrderRule rule, const Pipeline& pipeline) {
  return efficiency(pipeline, earliest_times(pipeline, order_of(rule, pipeline)).makespan);
}

TEST(Orders, GPipeAndOneForwardOneBackwardReachTheClosedForm) {
  for (const int devices : {1, 2, 4, 8}) {
    for (const int micro_batches : {1, 3, 8, 16, 24}) {
      const Pipeline pipeline = equal_pipeline(devices, 1, micro_batches);
      const double expected = pipeline_efficiency(micro_batches, devices);
      EXPECT_NEAR(reached(OrderRule::gpipe, pipeline), expected, 1e-12);
      EXPECT_NEAR(reached(OrderRule::one_f_one_b, pipeline), expected, 1e-12);
    }
  }
}

TEST(Orders, InterleavedReachesTheClosedForm) {
  for (const int chunks : {1, 2, 3, 4}) {
    for (const int micro_batches : {8, 16, 24, 64}) {
      EXPECT_NEAR(reached(OrderRule::interleaved, equal_pipeline(8, chunks, micro_batches)),
                  interleaved_efficiency(micro_batches, 8, chunks), 1e-12);
    }
  }
  EXPECT_NEAR(interleaved_efficiency(8, 8, 2), 0.6957, 5e-5);
  EXPECT_NEAR(interleaved_efficiency(16, 8, 2), 0.8205, 5e-5);
  EXPECT_NEAR(interleaved_efficiency(24, 8, 2), 0.8727, 5e-5);
}

TEST(Orders, InterleavedNeedsWholeGroupsAndTheCyclicMap) {
  EXPECT_THROW(order_of(OrderRule::interleaved, equal_pipeline(4, 2, 6)), UserError);
  Pipeline folded = equal_pipeline(4, 2, 8);
  folded.device = v_map(8, 4);
  EXPECT_THROW(order_of(OrderRule::interleaved, folded), UserError);
}

// The table: M inputs, or one more than there are stages up to the loss, or 1, by the rule.
TEST(Orders, StagesHoldAsManyInputsAsTheTableSays) {
  const Pipeline pipeline = equal_pipeline(4, 1, 6);
  const auto held = [&](OrderRule rule, int window = 0) {
    return stages_in_flight(pipeline, order_of(rule, pipeline, {window}));
  };
  EXPECT_EQ(held(OrderRule::gpipe), (std::vector<int>{6, 6, 6, 6}));
  EXPECT_EQ(held(OrderRule::stage_visit), (std::vector<int>{6, 6, 6, 6}));
  EXPECT_EQ(held(OrderRule::one_f_one_b), (std::vector<int>{4, 3, 2, 1}));
  EXPECT_EQ(held(OrderRule::async_one_f_one_b), (std::vector<int>{4, 3, 2, 1}));
  EXPECT_EQ(held(OrderRule::async_one_f_one_b, 3), (std::vector<int>{3, 3, 2, 1}));
  EXPECT_EQ(held(OrderRule::pipedream), (std::vector<int>{4, 3, 2, 1}));
  EXPECT_EQ(held(OrderRule::pipedream, 2), (std::vector<int>{2, 2, 2, 1}));
  EXPECT_EQ(held(OrderRule::sequential), (std::vector<int>{1, 1, 1, 1}));
  const Pipeline few = equal_pipeline(4, 1, 2);  // min(M, d + 1)
  EXPECT_EQ(stages_in_flight(few, order_of(OrderRule::one_f_one_b, few)),
            (std::vector<int>{2, 2, 2, 1}));
}

// Warm-up + 1 over all chunks of the rank; with M = P the warm-up is everything.
TEST(Orders, InterleavedRanksHoldTheirWarmUpAndOne) {
  const Pipeline pipeline = equal_pipeline(4, 2, 8);
  EXPECT_EQ(devices_in_flight(pipeline, order_of(OrderRule::interleaved, pipeline)),
            (std::vector<int>{2 * 3 + 4 + 1, 2 * 2 + 4 + 1, 2 + 4 + 1, 4 + 1}));
  const Pipeline few = equal_pipeline(4, 2, 4);
  EXPECT_EQ(devices_in_flight(few, order_of(OrderRule::interleaved, few)),
            (std::vector<int>{8, 8, 8, 8}));
}

TEST(Orders, PipeDreamFillsTheWindowBeforeItsFirstBackward) {
  Pipeline pipeline = equal_pipeline(4, 1, 8);
  const DeviceOrders orders = order_of(OrderRule::pipedream, pipeline);
  for (std::size_t d = 0; d < 4; ++d) {
    for (std::size_t i = 0; i < 3 - d; ++i) EXPECT_FALSE(orders[d][i].backward) << d;
  }
}

TEST(Orders, EveryRuleRunsEveryTaskOnceOnAnyMap) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    Pipeline pipeline;
    pipeline.devices = 1 + static_cast<int>(random() % 5);
    pipeline.micro_batches = 1 + static_cast<int>(random() % 7);
    const int stages = 1 + static_cast<int>(random() % 9);
    for (int s = 0; s < stages; ++s) {
      pipeline.device.push_back(
          static_cast<int>(random() % static_cast<unsigned>(pipeline.devices)));
      pipeline.forward.push_back(1 + static_cast<double>(random() % 9));
      pipeline.backward.push_back(1 + static_cast<double>(random() % 20));
    }
    const int window = static_cast<int>(random() % 4);
    for (const OrderRule rule :
         {OrderRule::gpipe, OrderRule::one_f_one_b, OrderRule::stage_visit,
          OrderRule::async_one_f_one_b, OrderRule::pipedream, OrderRule::sequential}) {
      const DeviceOrders orders = order_of(rule, pipeline, {window});
      std::vector<PipelineTask> sequence = sequence_of(pipeline, orders);
      ASSERT_EQ(sequence.size(), 2U * stages * pipeline.micro_batches);
      std::sort(sequence.begin(), sequence.end());
      EXPECT_EQ(std::adjacent_find(sequence.begin(), sequence.end()), sequence.end());
    }
  }
}

TEST(Orders, OrdersThatWaitForEachOtherHaveNoSequence) {
  const Pipeline pipeline = equal_pipeline(1, 1, 1);
  EXPECT_TRUE(sequence_of(pipeline, {{{true, 0, 0}, {false, 0, 0}}}).empty());
}

// A stage d stages above the loss sees updates d micro-batches late, M of which make one update.
TEST(Staleness, SteadyMeansAreDepthOverAccumulation) {
  struct Row {
    int depth, accumulate, least, most;
    double mean;
  };
  for (const Row& row : {Row{15, 5, 3, 3, 3.0}, Row{14, 5, 2, 3, 2.8}, Row{8, 5, 1, 2, 1.6},
                         Row{7, 10, 0, 1, 0.7}, Row{14, 2, 7, 7, 7.0}, Row{15, 2, 7, 8, 7.5},
                         Row{7, 4, 1, 2, 1.75}, Row{7, 1, 7, 7, 7.0}, Row{1, 5, 0, 1, 0.2}}) {
    const Staleness staleness = steady_staleness(row.depth, row.accumulate);
    EXPECT_EQ(staleness.least, row.least);
    EXPECT_EQ(staleness.most, row.most);
    EXPECT_NEAR(staleness.mean, row.mean, 1e-12);
  }
}

// By stage and micro-batch: the updates between its forward and its backward when a stage updates
// its weights behind every `accumulate`-th of its backwards.
std::vector<std::vector<int>> staleness_of(const Pipeline& pipeline, const DeviceOrders& orders,
                                           int accumulate) {
  const auto micro_batches = pipeline.micro_batches;
  std::vector<std::vector<int>> version(pipeline.stages(), std::vector<int>(micro_batches));
  std::vector<std::vector<int>> staleness = version;
  std::vector<int> backwards(pipeline.stages(), 0);
  for (const auto& order : orders) {
    for (const PipelineTask& task : order) {
      const int s = task.stage;
      const int m = task.micro_batch;
      const int updates = backwards[s] / accumulate;
      if (task.backward) {
        staleness[s][m] = updates - version[s][m];
        ++backwards[s];
      } else {
        version[s][m] = updates;
      }
    }
  }
  return staleness;
}

// tau(s, i) = floor(i / M) - floor(max(0, i - d) / M), counted task by task.
TEST(Staleness, CountedFromTheOrderIsTheFormula) {
  for (const int accumulate : {1, 2, 5}) {
    Pipeline pipeline = equal_pipeline(8, 1, 40);
    const auto counted =
        staleness_of(pipeline, order_of(OrderRule::async_one_f_one_b, pipeline), accumulate);
    for (int s = 0; s < 8; ++s) {
      for (int i = 0; i < 40; ++i) {
        const int expected = i / accumulate - std::max(0, i - pipeline.depth(s)) / accumulate;
        EXPECT_EQ(counted[s][i], expected);
      }
    }
  }
}

TEST(Staleness, AnInjectionWindowBoundsIt) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 300; ++round) {
    Pipeline pipeline;
    pipeline.devices = 1 + static_cast<int>(random() % 4);
    pipeline.micro_batches = 30;
    const int stages = 1 + static_cast<int>(random() % 8);
    for (int s = 0; s < stages; ++s) {
      pipeline.device.push_back(
          static_cast<int>(random() % static_cast<unsigned>(pipeline.devices)));
      pipeline.forward.push_back(1 + static_cast<double>(random() % 9));
      pipeline.backward.push_back(1 + static_cast<double>(random() % 20));
    }
    const int window = 1 + static_cast<int>(random() % 8);
    const int accumulate = 1 + static_cast<int>(random() % 6);
    const DeviceOrders orders = order_of(OrderRule::async_one_f_one_b, pipeline, {window});
    const auto staleness = staleness_of(pipeline, orders, accumulate);
    const std::vector<int> held = stages_in_flight(pipeline, orders);
    const auto rounded_up = [&](int n) { return (n + accumulate - 1) / accumulate; };
    for (int s = 0; s < stages; ++s) {
      const auto& of_stage = staleness[s];
      const int most = *std::max_element(of_stage.begin(), of_stage.end());
      EXPECT_LE(most, rounded_up(std::min(pipeline.depth(s), window - 1)));
      EXPECT_LE(most, rounded_up(held[s] - 1));
    }
  }
}

}  // namespace
}  // namespace ferry
