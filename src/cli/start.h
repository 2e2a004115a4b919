// What `ferry train` makes sure of in a moment, before anything is measured, planned or written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "spec/job.h"

namespace ferry {

/// What a run begins with.
struct Start {
  std::optional<std::filesystem::path> checkpoint;  // to go on from; none: a new run
  StepsDone done;                                   // of it
  std::vector<std::string> allowed;  // names of what may have changed since it was saved
};

/// Checks what the job names, cheapest first: model and data are there, weights, tokenizer and
/// checkpoint are whole by their headers, and of the same question; the drive has room. Throws
/// UserError or ResourceError. Requires: this process has job.out to itself (data/run_lock.h).
Start check_start(Job job, const TrainCommand& command);

/// True, and said (as an event where `events` are asked for), when the run that is resumed has all
/// the job's steps.
bool nothing_left(const Start& start, const Job& job, bool events);

}  // namespace ferry
