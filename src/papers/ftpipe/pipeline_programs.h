// Strategies `gpipe`, `1f1b`, `interleaved` and `async-1f1b` as pure programs: a profile's chain in
// stages on devices, a schedule of orders.h or papers.order, transfers free. (FTPipe, USENIX ATC
// 2021; several stages per device are planned as periodic.h says.)
//
// Figures: "bubble" = 1 - busy / (devices * makespan), "makespan" (microseconds), staleness_min,
// _max, _mean over stages, traffic through the host between stages. Series, by stage: "in_flight",
// "staleness_min", "staleness_max", "staleness_mean"; by device: "device_in_flight",
// "device_bytes" (weights, gradients, 10 bytes of states per parameter, inputs in flight, the
// largest workspace). Memory is told, not limited.
#pragma once

#include "papers/timing/program.h"

namespace ferry {

/// One stage per device, or plan.chunks; plan.stages and the map as asked. With several stages per
/// device the order is what list scheduling makes of the rule.
ProgramAnswer gpipe_program(const PlanQuestion& question);
ProgramAnswer one_f_one_b_program(const PlanQuestion& question);

/// plan.chunks stages per device, two unless given, in Megatron-LM's order. Throws UserError when
/// micro-batches are no multiple of the devices.
ProgramAnswer interleaved_program(const PlanQuestion& question);

/// The steady state without a flush; the plan is one step of it, whose backwards may be of earlier
/// steps' micro-batches. One stage per device: the window d + 1, or papers.window. Several: a
/// planned periodic order (periodic.h), as papers.order and papers.offsets give it or searched.
/// Figures "bubble" and "step" and the series are the steady state's, "makespan" and "bubble_first"
/// those of the same order with one step's micro-batches alone, filled and drained, each task as
/// early as it can; "latency_planned" and "makespan_planned" those of the planned times, where
/// there are some. A stage's inputs have slots of their own: "device_in_flight" are sums.
ProgramAnswer async_one_f_one_b_program(const PlanQuestion& question);

}  // namespace ferry
