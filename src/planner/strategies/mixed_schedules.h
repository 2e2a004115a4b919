// Mixed-pipe's answers as schedules of pipelines that can train: a device may hold blocks that are
// not neighbours, so stages are the runs of neighbours on one device.
#pragma once

#include <vector>

#include "planner/costs/chain.h"
#include "planner/costs/question.h"
#include "planner/mixed/block_graph.h"
#include "planner/write/pipeline_schedule.h"

namespace ferry {

/// The chain as Mixed-pipe's graph: one tensor between neighbours, a tied head as a tied weight.
/// What a block keeps for its recompute counts for as many micro-batches as there are devices.
BlockGraph mixed_graph(const PlanQuestion& question, const Chain& chain);

/// The machine's devices with their limits and links, copies staged in host memory.
MixedMachine mixed_machine(const PlanQuestion& question);

/// The assignments with the shortest step without its copies and with the shortest period;
/// distinct, none when Mixed-pipe finds nothing that fits; without spare slots. Whether a schedule
/// fits is for its plan to say. Requires: the question trains.
std::vector<PipelineSchedule> mixed_schedules(const PlanQuestion& question, const Chain& chain);

/// Evenly cut stages, several per device, that take the devices in turn or there and back: with
/// equal blocks these have shorter bubbles than any one stage per device. The few with the shortest
/// step without copies, the shortest first. Requires: the question trains.
std::vector<PipelineSchedule> schedules_in_turns(const PlanQuestion& question, const Chain& chain);

}  // namespace ferry
