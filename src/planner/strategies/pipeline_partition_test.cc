#include "planner/strategies/pipeline_partition.h"

#include <gtest/gtest.h>

#include "planner/sample_questions.h"
#include "planner/write/pipeline_schedule.h"
#include "planner/write/stream_plan.h"

namespace ferry {
namespace {

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
      const PipelineSchedule schedule{ends, devices, sequence_of(pipeline, orders), 0};
      const Plan plan =
          write_stream_plan(question, chain, visits_of(question, chain, schedule, "1f1b"));
      const StageMemory memory(question, chain);
      const std::vector<int> in_flight = stages_in_flight(pipeline, orders);
      int first = 0;
      for (int s = 0; s < 3; ++s) {
        const auto stage = s;
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
