// What the command line needs torch for, beside run_doctor().
//
// There are two programs. `ferry` is linked without torch, which takes a third of a second to load;
// what is declared here throws TorchNeeded there, and main() goes on as `ferry-torch`, which stands
// beside it and has all commands.
#pragma once

#include <string>
#include <vector>

#include "base/progress.h"
#include "cli/commands.h"
#include "cli/precision_choice.h"
#include "cli/question.h"
#include "cli/start.h"
#include "spec/host_limits.h"
#include "spec/machine.h"
#include "spec/profile.h"

namespace ferry {

/// Thrown before anything was printed or done that would not be done again.
struct TorchNeeded {
  bool watched = false;  // by a process that tells when the kernel kills it (watchdog.h)
};

/// Holds this process to the job's budgets on GPUs of this box (device/memory_limit.h); of a GPU
/// that no budget limits, to the machine's memory. Requires: none was used yet. `machine`: the
/// job's, null for the box itself.
void hold_gpus_to_budgets(const Job& job, const Machine* machine);

/// The GPUs of this box that torch can use.
std::vector<FoundGpu> gpus_here();

/// The machine of a job that names none, with the rates of its links where it has GPUs
/// (machine_here.h). The listener hears what takes time.
Machine machine_here(const HostLimits& limits, PhaseListener& listener);

/// A profile, and a line for each block that was not measured as a whole.
struct MeasuredProfile {
  Profile profile;
  std::vector<std::string> remarks;
};

/// What the model's blocks cost on the machine, which is here: measured, or as equal blocks were
/// measured before, by this or another job. What cannot be measured is estimated. The listener
/// hears what takes time, and of estimates.
MeasuredProfile measured_profile(const Question& question, PhaseListener& listener);

/// What `train.precision: auto` means on the machine, which is here.
PrecisionChoice precision_here(const Question& question, PhaseListener& listener);

/// Plans and runs `job`, which is the command's, from where check_start() says. Returns the exit
/// code. Requires: this process has the run's folder to itself (data/run_lock.h).
int train_from(const Job& job, const Start& start, const TrainCommand& command);

}  // namespace ferry
