// Strategy `roundpipe` as a pure program: a profile's chain cut by the t_max sweep
// (roundpipe_partition.h) and dispatched in rounds (roundpipe_dispatch.h); transfers are free, as
// in the paper's bubbles.
//
// plan.stages and plan.backward_stages give the cut in order of dispatch: forward stages, and
// backward stages of which the first is fused (plan.stages alone: backward is cut alike); else the
// printed cost decides, with plan.partition: search a simulation of the best few in the mode that
// runs. plan.round: the least micro-batches of a round; 0: as many as devices. papers.flush false:
// steps follow each other on the next device in turn, so that the plan has steps_in_plan steps
// until the first one is first again; its prediction is that of one step.
//
// Figures: bubble, bubble_first (one step on its own), bubble_steady (without a flush), makespan
// (of one step on its own), step, t_max, cost (microseconds), rounds, steps_in_plan, staleness_*:
// 0, and 1 without a flush (RoundPipe section 4.3: steps read the weights of the step before the
// last).
#pragma once

#include "papers/timing/program.h"

namespace ferry {

ProgramAnswer roundpipe_program(const PlanQuestion& question);

}  // namespace ferry
