// Strategies `fuyou`, `fuyou-naive` and `fuyou-serial` as the paper's program alone, for any
// question: Ratel's step of papers/ratel/fuyou_program.h with the question's own rates and times.
//
// The question's micro-batches run as one batch. Compute times are the profile's sums, spread
// evenly over the layers. What Ratel's artifact shows beyond that is asked for: papers.elementwise,
// papers.update_on_drives (else the update has the CPU to itself), papers.launch_stall and
// papers.overlap_stretch. Nothing is fitted.
#pragma once

#include "papers/ratel/fuyou_program.h"
#include "papers/timing/program.h"

namespace ferry {

/// The program's question on the machine's first device. plan.activations: swap-to-drive sends all
/// that is swapped to the drives. Throws UserError when the question has no model or its machine no
/// drive with known rates, for plan.activations: keep, and for papers.swapped out of bounds.
FuyouProblem fuyou_problem(const PlanQuestion& question, HandlerOrder order);

/// What the program holds at its peak.
struct FuyouMemory {
  Bytes device;  // blocks in flight, a block's gradients, the activations of one layer
  Bytes host;    // blocks read ahead, two groups' P32, m, v and P16, one group's gradients
  Bytes drives;  // P32, m, v and P16, and what is swapped beyond RatelCase::host_available
};
FuyouMemory fuyou_memory(const FuyouProblem& question);

/// The simulated program, its bound that of tiered_bounds.h for Ratel's traffic; or what it lacks.
ProgramAnswer plan_fuyou_program(const PlanQuestion& question);
ProgramAnswer plan_fuyou_naive_program(const PlanQuestion& question);
ProgramAnswer plan_fuyou_serial_program(const PlanQuestion& question);

}  // namespace ferry
