// A machine's drives as far as training can use them: those that are folders on this box.
#pragma once

#include <vector>

#include "base/progress.h"
#include "spec/machine.h"
#include "train/run_folder.h"
#include "train/trainer.h"

namespace ferry {

/// Throws UserError for a drive whose folder is not there.
void require_drive_folders(const Machine& machine);

/// Leaves out the drives that training cannot use, and says which and why: those without a path or
/// without rates. `none`: all of them, without a word.
void keep_usable_drives(Machine& machine, bool none, PhaseListener& listener);

/// What the run's plans take of each drive's folder. Empty for plans without drives.
std::vector<SwapNeed> swap_needs(const TrainSetup& setup);

}  // namespace ferry
