// A run's folder before the run: what is there already, and whether what is to come may go in.
// Nothing is written here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace ferry {

/// Where the run in the folder `out` keeps its checkpoints.
std::filesystem::path checkpoints_in(const std::filesystem::path& out);

/// True when a run has begun in `out`: it holds the job that ran, or a checkpoint.
bool holds_run(const std::filesystem::path& out);

/// Throws UserError when an earlier run has saved checkpoints in `out`: a new one must not mix with
/// them or push them out.
void require_unused(const std::filesystem::path& out);

/// The checkpoint after `step` steps in `out`; without `step` the newest. Throws UserError, which
/// names those that are there, when there is none.
std::filesystem::path find_checkpoint(const std::filesystem::path& out,
                                      std::optional<std::int64_t> step);

}  // namespace ferry
