// Harmony's programs as strategies (Strategy::program): the four-tuple of the job, or the one that
// Harmony's search finds, with what its estimator says. Harmony, sections of the scheduler.
//
// D is micro_batches * micro_batch_size samples, N the machine's devices, the packing methods'
// capacity the device budget. A profile that is not Harmony's has one size, which is then U_f and
// U_b.
#pragma once

#include "papers/timing/program.h"

namespace ferry {

/// vDP: every device runs all packs on its part of the samples.
ProgramAnswer program_harmony_dp(const PlanQuestion& question);

/// vPP: packs go round the devices, through forward and on through backward.
ProgramAnswer program_harmony_pp(const PlanQuestion& question);

}  // namespace ferry
