// A run's folder before the run: what is there already, and whether what is to come may go in.
// Nothing is written here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"
#include "base/units.h"
#include "spec/job.h"
#include "spec/model_spec.h"

namespace ferry {

/// Where the run in the folder `out` keeps its checkpoints.
std::filesystem::path checkpoints_in(const std::filesystem::path& out);

/// The first line of the job that a run writes into its folder, by which its files are known.
inline constexpr const char* kRunsJob =
    "# Written by ferry train: the job that runs in this folder.\n";

/// True when a run has begun in `out`: it holds the job that ran, or a checkpoint.
bool holds_run(const std::filesystem::path& out);

/// Throws UserError for a file in `out` that has a name of ferry's and is not its own: a run, or a
/// plan that is written there, would replace it.
void require_own_files(const std::filesystem::path& out);

/// Throws UserError when an earlier run has saved checkpoints in `out`, with which a new one must
/// not mix and which it must not push out; and as require_own_files() does.
void require_unused(const std::filesystem::path& out);

/// The checkpoint after `step` steps in `out`; without `step` the newest. Throws UserError, which
/// names those that are there, when there is none, or only such of ferry 0.1.
std::filesystem::path find_checkpoint(const std::filesystem::path& out,
                                      std::optional<std::int64_t> step);

/// `damage`, found in the checkpoint of `step`, with the way out: the newest older checkpoint whose
/// checksums are right, which are all read for it.
UserError with_older_checkpoint(const UserError& damage, const std::filesystem::path& out,
                                std::int64_t step);

/// What a checkpoint of the model takes on a drive.
Bytes checkpoint_size(const ModelSpec& model, const Job& job);

/// "FOLDER lacks 46.2 MiB: a checkpoint takes 47.4 MiB, 1.2 MiB are free", of where the run's go;
/// empty where there is room for another one, or the drive does not say.
std::string lack_of_space(const ModelSpec& model, const Job& job);

/// What a run takes of the file system of a folder beside its checkpoints, from its start to its
/// end.
struct SwapNeed {
  std::filesystem::path folder;
  Bytes size;
};

/// Throws ResourceError, with need and have in bytes, unless every drive has room for all that the
/// run will have at once from step `done` on: `train.keep` checkpoints and the one being written,
/// and the swap files that it has not taken yet; or where the process's files may not be as large
/// as a checkpoint's (ulimit -f).
void require_space(const ModelSpec& model, const Job& job, std::int64_t done,
                   std::span<const SwapNeed> swap = {});

}  // namespace ferry
