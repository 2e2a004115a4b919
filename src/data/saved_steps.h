// The checkpoints of a run: folders step-000123 that appear complete or not at all, of which the
// newest few are kept. One process at a time may use such a folder: whoever writes into it holds
// its run's lock (run_lock.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "data/manifest.h"

namespace ferry {

/// Where a run's folder has its checkpoints.
inline constexpr const char* kCheckpointsFolder = "checkpoints";

/// A checkpoint being written. Destroyed without SavedSteps::commit(), it is removed.
class UnsavedStep {
 public:
  UnsavedStep(UnsavedStep&& other) noexcept;
  UnsavedStep& operator=(UnsavedStep&&) = delete;
  ~UnsavedStep();

  /// The folder to write into: "step-000123.tmp".
  const std::filesystem::path& folder() const { return folder_; }

 private:
  friend class SavedSteps;
  explicit UnsavedStep(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::filesystem::path folder_;  // empty after commit() or a move
};

class SavedSteps {
 public:
  /// Keeps the newest `keep` checkpoints in `root`, which is made when the first one is begun.
  /// Writes nothing. `link`, where given, is kept pointing at the checkpoint written last.
  /// Requires: keep >= 1.
  SavedSteps(std::filesystem::path root, std::int64_t keep, std::filesystem::path link = {});

  /// Removes what an interrupted run left half written. Tells of what cannot be removed, which is
  /// tried again after every checkpoint. Throws ResourceError when `root` cannot be listed.
  void remove_unfinished(PhaseListener& listener = nobody()) const;

  /// The checkpoints of later steps lose their names, to which a run that goes back to `step` will
  /// have others: until it has saved one, what goes on from this folder goes on from `step`, where
  /// the link leads to. Returns where they are now, "step-000123.later"; commit() removes them.
  /// Throws ResourceError.
  std::vector<std::filesystem::path> set_later_aside(std::int64_t step,
                                                     PhaseListener& listener = nobody()) const;

  /// Makes a folder for the checkpoint after `step` steps, empty but for an empty kStateFolder.
  /// Requires: step >= 0.
  UnsavedStep begin(std::int64_t step) const;

  /// Writes the manifest, gives the folder its final name durably, replacing a checkpoint of the
  /// same step, points the link at it, and then removes what was set aside, and the oldest beyond
  /// `keep`, as remove_outdated() does. A file or
  /// folder that stands in the link's place stays, and there is no link. Requires: `manifest.step`
  /// is the step it was begun with. Returns the final path.
  std::filesystem::path commit(UnsavedStep step, const Manifest& manifest,
                               std::optional<std::int64_t> last_good = std::nullopt,
                               PhaseListener& listener = nobody()) const;

  /// Of the checkpoints up to that of `step` removes the oldest beyond `keep`; with `last_good`,
  /// the newest of at most so many steps stays as well. What cannot be removed is left to the next
  /// time. Throws ResourceError when they cannot be listed.
  void remove_outdated(std::int64_t step, std::optional<std::int64_t> last_good) const;

 private:
  void remove_left_behind() const;

  std::filesystem::path root_;
  std::int64_t keep_;
  std::filesystem::path link_;  // empty: none
};

/// The checkpoint that a folder is, or the newest one of the run that it belongs to. Throws
/// UserError when it is neither.
std::filesystem::path checkpoint_at(const std::filesystem::path& folder);

/// The complete checkpoints in `root`, by ascending step; none when there is no such folder.
std::vector<std::filesystem::path> saved_steps(const std::filesystem::path& root);

/// The checkpoints of ferry 0.1 in `root`, which cannot be resumed.
std::vector<std::filesystem::path> earlier_steps(const std::filesystem::path& root);

/// What interrupted runs left half written in `root`.
std::vector<std::filesystem::path> unfinished_steps(const std::filesystem::path& root);

/// The step in the name of a checkpoint's folder, or nothing: 123 of "step-000123".
std::optional<std::int64_t> step_of(const std::filesystem::path& checkpoint);

}  // namespace ferry
