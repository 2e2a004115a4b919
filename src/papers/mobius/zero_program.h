// Strategy `zero` as a pure program: ZeRO-3 with states and weights on the host, on devices without
// peer-to-peer. Every device runs all layers on its share of the micro-batches; weights are
// gathered and gradients scattered layer by layer in rings whose every hop goes down one link and
// up another: the baseline of Mobius, ASPLOS 2023, section 3.1.
//
// Per layer and pass every device uploads its shard W / N and passes N - 1 shards on: with P
// parameters of 2 bytes, 4 P N + 2 P (N - 1) bytes go up and 6 P (N - 1) + 2 P down per step. Two
// layers' weights are on a device at a time. Updates follow the whole backward; the next step waits
// for them.
//
// papers.states: drives is ZeRO-Infinity: weights are read from the drives for each pass, and after
// the whole backward every layer's master and moments are read, updated and written with the new
// weights, one layer after the other; gradients stay in DRAM. Figures then also: drive_read_bytes,
// drive_written_bytes.
//
// Figures: step, bubble, makespan, traffic_up_bytes, traffic_down_bytes, link_floor (the busiest
// link, microseconds), staleness_*: 0. Series by stage (layer): in_flight.
#pragma once

#include "papers/timing/program.h"

namespace ferry {

/// Throws UserError when a link or, with states on them, the drives have no rate. Memory is told by
/// nothing: two layers have to fit.
ProgramAnswer zero_program(const PlanQuestion& question);

}  // namespace ferry
