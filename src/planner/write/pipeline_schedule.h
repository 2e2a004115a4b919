// The schedule of a pipeline whose stages stay on their devices: where the chain is cut, which
// device has which stage, and in which order the stages run.
#pragma once

#include <string>
#include <vector>

#include "planner/costs/chain.h"
#include "planner/costs/question.h"
#include "planner/orders/orders.h"
#include "planner/orders/pipeline.h"
#include "planner/write/activation_policy.h"
#include "planner/write/stream_schedule.h"

namespace ferry {

struct PipelineSchedule {
  std::vector<int> ends;             // one past each stage's last block
  std::vector<int> device_of_stage;  // any device may have any number of stages
  /// Every stage forward and backward once per micro-batch, backward in ascending order of
  /// micro-batches per stage: an order that is right when its runs follow one another.
  std::vector<PipelineTask> order;
  /// Activation slots per device beyond those in use at once: how far copies run ahead.
  int spare_slots = 0;
  ActivationPolicies policies = {};  // kept on the stage's device or computed again
  bool straight = false;             // StreamSchedule::straight
};

/// As a list of visits, one per run, with nothing away from its device but what another one reads.
/// An evaluation takes the order's forward runs; weights and states are at the same offsets of the
/// same devices in both modes.
StreamSchedule visits_of(const PlanQuestion& question, const Chain& chain,
                         const PipelineSchedule& schedule, const std::string& strategy);

/// By block: its stage's micro-batches in flight.
KeptSlots slots_in_flight(const PipelineSchedule& schedule);

/// A cut chain as schedules see it, in microseconds. Its devices count from 0 in order of first
/// appearance: order rules know turns, not machines.
Pipeline cut_pipeline(const Chain& chain, const std::vector<int>& ends,
                      const std::vector<int>& device_of_stage, int micro_batches);

/// The rule's orders. Megatron-LM's interleaving asks for whole rounds of stages and micro-batches;
/// where they are not, list scheduling with the windows of 1F1B takes its place.
DeviceOrders pipeline_orders(OrderRule rule, const Pipeline& pipeline);

/// How long a step takes when copies take no time: the orders, then updates on the devices, which
/// with `clips` wait for the last backward of all.
Micros step_without_copies(const Chain& chain, const std::vector<int>& ends,
                           const Pipeline& pipeline, const DeviceOrders& orders, bool clips);

}  // namespace ferry
