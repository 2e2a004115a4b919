// The rules that order a pipeline's tasks, as data: for every device the list of its tasks. What a
// rule writes is used alike by pure programs and by plans that train. Sources of the rules:
// docs/papers.md.
#pragma once

#include "planner/orders/pipeline.h"

namespace ferry {

enum class OrderRule {
  gpipe,              // all forwards, then all backwards, both in order of micro-batches
  one_f_one_b,        // as many forwards as the stage is deep, then one forward, one backward
  interleaved,        // Megatron-LM: several chunks per device, micro-batches in groups of P
  stage_visit,        // Mobius: all micro-batches of a stage before the device's next stage
  async_one_f_one_b,  // 1F1B that never drains: a window of d + 1 micro-batches per stage
  pipedream,          // likewise; no backward before the window has been filled once
  sequential,         // one micro-batch at a time
};

struct OrderOptions {
  int window = 0;  // asynchronous rules: most micro-batches in the pipeline; 0: as many as stages
};

/// The orders of `pipeline.micro_batches` micro-batches. With one stage per device and no window
/// they do not depend on times, but for pipedream. Else a rule that has no order of its own (gpipe,
/// 1F1B) takes what list scheduling with the given times makes of it; of several keys the shortest,
/// ties to the first. Throws UserError when an interleaved pipeline is not `v` chunks in
/// cyclic order, or its micro-batches are no multiple of the devices.
DeviceOrders order_of(OrderRule rule, const Pipeline& pipeline, const OrderOptions& options = {});

}  // namespace ferry
