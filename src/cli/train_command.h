// From `ferry train` as it was typed to what train() asks for.
#pragma once

#include <optional>

#include "base/progress.h"
#include "cli/commands.h"
#include "cli/start.h"
#include "train/trainer.h"

namespace ferry {

/// Reads the job, plans it, gets its tokens and says what will run: the plan, then what is trained
/// on what. Nothing when the job does not fit, which is said. Throws UserError or ResourceError.
std::optional<TrainSetup> prepare_training(const TrainCommand& command, const Start& start,
                                           PhaseListener& listener);

}  // namespace ferry
