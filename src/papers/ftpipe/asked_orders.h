// `papers.order` and `papers.offsets` as schedules of a pipeline.
#pragma once

#include "papers/ftpipe/periodic.h"
#include "planner/costs/question.h"
#include "planner/orders/pipeline.h"

namespace ferry {

/// Every micro-batch's tasks, "F0.0 F0.1 B0.0 B0.1", as the question lists them by device.
/// Requires: papers.order is given. Throws UserError unless every task stands once, on its stage's
/// device, and none waits for ever.
DeviceOrders asked_orders(const PlanQuestion& question, const Pipeline& pipeline);

/// One period, "F0 B0 B8 F8", with papers.offsets, or 0. Requires and throws likewise.
PeriodicOrder asked_period(const PlanQuestion& question, const Pipeline& pipeline);

}  // namespace ferry
