// A few steps of a plan with made-up weights and tokens: what its tasks take while all that a step
// does goes on beside them.
#pragma once

#include <span>
#include <string>

#include "device/kernel_library.h"
#include "plan/plan.h"
#include "spec/machine.h"
#include "spec/model_spec.h"
#include "train/device_pace.h"

namespace ferry {

struct Rehearsed {
  double computing = 0;  // computing_rate()
  StartingDelays delays;
};

/// What the plan's devices do while `least` of them compute. What is measured of a block alone
/// knows nothing of the other devices, nor of enqueueing, copies and the driving thread, which
/// share cores, caches and memory with it where devices are simulated. `device_names` opens the
/// plan's devices in order. Runs three to six steps of the plan, for 1.5 s where that is between,
/// and looks at those behind the first. Throws ResourceError when the machine refuses memory or a
/// task fails.
Rehearsed rehearse(const ModelSpec& model, const Plan& plan,
                   std::span<const std::string> device_names, const Machine& machine,
                   const KernelFile& kernel_file, int least);

}  // namespace ferry
