// What `ferry train` makes sure of in a moment, before anything is measured, planned or written.
#pragma once

#include <filesystem>
#include <optional>

#include "cli/commands.h"
#include "spec/job.h"

namespace ferry {

/// What a run begins with.
struct Start {
  std::optional<std::filesystem::path> checkpoint;  // to go on from; none: a new run
};

/// Checks what the job names, cheapest first, and reads nothing that takes long. Throws UserError
/// or ResourceError. Requires: this process has job.out to itself (data/run_lock.h).
Start check_start(const Job& job, const TrainCommand& command);

}  // namespace ferry
