#include "planner/write/pipeline_schedule.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "planner/cuts/mapping.h"

namespace ferry {
namespace {

std::vector<int> turns_of(const std::vector<int>& device_of_stage) {
  std::vector<int> seen, turns;
  for (const int device : device_of_stage) {
    const auto at = std::ranges::find(seen, device);
    turns.push_back(static_cast<int>(at - seen.begin()));
    if (at == seen.end()) seen.push_back(device);
  }
  return turns;
}

}  // namespace

Pipeline cut_pipeline(const Chain& chain, const std::vector<int>& ends,
                      const std::vector<int>& device_of_stage, int micro_batches) {
  Pipeline pipeline;
  int first = 0;
  for (const int end : ends) {
    Micros forward, backward;
    for (; first < end; ++first) {
      const ChainBlock& block = chain.blocks[first];
      if (has_forward(block)) forward += block.forward;
      backward += block.backward;
    }
    pipeline.forward.push_back(forward.count);
    pipeline.backward.push_back(backward.count);
  }
  pipeline.device = turns_of(device_of_stage);
  pipeline.devices = 1 + *std::ranges::max_element(pipeline.device);
  pipeline.micro_batches = micro_batches;
  return pipeline;
}

DeviceOrders pipeline_orders(OrderRule rule, const Pipeline& pipeline) {
  const int stages = pipeline.stages(), devices = pipeline.devices;
  const bool rounds = pipeline.device == cyclic_map(stages, devices) && stages % devices == 0 &&
                      pipeline.micro_batches % devices == 0;
  const bool listed = rule == OrderRule::interleaved && !rounds;
  return order_of(listed ? OrderRule::one_f_one_b : rule, pipeline);
}

StreamSchedule visits_of(const PlanQuestion& question, const Chain& chain,
                         const PipelineSchedule& schedule, const std::string& strategy) {
  FERRY_CHECK(schedule.ends.size() == schedule.device_of_stage.size(), "every stage has a device");
  const bool trains = question.mode == PlanMode::train;
  StreamSchedule result;
  result.strategy = strategy;
  result.devices = 1 + *std::ranges::max_element(schedule.device_of_stage);
  for (const PipelineTask& run : schedule.order) {
    if (run.backward && !trains) continue;
    result.visits.push_back({run.backward ? Direction::backward : Direction::forward,
                             schedule.device_of_stage[run.stage],
                             run.stage == 0 ? 0 : schedule.ends[run.stage - 1],
                             schedule.ends[run.stage], run.micro_batch, run.micro_batch + 1});
  }
  const int stages = static_cast<int>(schedule.ends.size());
  result.homes.resize(chain.size(), kAllOnDevice);
  result.spare_slots = schedule.spare_slots;
  result.straight = schedule.straight;
  result.spare_crossings = 2 * stages * schedule.spare_slots;
  // With slots to spare the next micro-batch's tokens arrive while this one is in use.
  result.token_slots = schedule.spare_slots > 0 ? 2 : 1;
  if (trains) result.policies = schedule.policies;
  // A tied head elsewhere reads the weights as the last step left them.
  const BlockId tied = chain.blocks.back().reads_weight;
  if (tied.valid()) result.homes[tied.index()].weight_stays = true;
  return result;
}

KeptSlots slots_in_flight(const PipelineSchedule& schedule) {
  Pipeline pipeline;
  pipeline.device = schedule.device_of_stage;
  const std::vector<int> held = stages_in_flight(pipeline, {schedule.order});
  KeptSlots slots;
  for (std::size_t s = 0; s < schedule.ends.size(); ++s) slots.resize(schedule.ends[s], held[s]);
  return slots;
}

Micros step_without_copies(const Chain& chain, const std::vector<int>& ends,
                           const Pipeline& pipeline, const DeviceOrders& orders, bool clips) {
  const PipelineTimes times = earliest_times(pipeline, orders);
  std::vector<Micros> updates(pipeline.devices), free(updates);
  int b = 0;
  for (std::size_t s = 0; s < ends.size(); ++s) {
    const int turn = pipeline.device[s];
    for (; b < ends[s]; ++b) {
      const ChainBlock& block = chain.blocks[b];
      if (block.trainable) updates[turn] += block.device_update;
    }
    const Micros end = Micros{times.backward[s].back() + pipeline.backward[s]};
    free[turn] = std::max(free[turn], end);
  }
  Micros step;
  for (std::size_t d = 0; d < free.size(); ++d) {
    step = std::max(step, (clips ? Micros{times.makespan} : free[d]) + updates[d]);
  }
  return step;
}

}  // namespace ferry
