// The checkpoints that a run writes: when, and what happens when the drive refuses one.
#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "data/saved_steps.h"
#include "train/checkpoints.h"
#include "train/saving_times.h"
#include "train/trainer.h"

namespace ferry {

class Saving {
 public:
  struct Setup {
    SavingTimes::Rules rules;
    bool at_end;                                           // of the run, too
    std::function<CheckpointContents(int done)> contents;  // of the state after so many steps
    std::function<std::string()> lack;  // of room for it, in words; empty: there is enough
    const SavedSteps& saved;
    TrainObserver& observer;
  };

  /// All that `setup` refers to must outlive this object. `done`: the steps done in what rests on
  /// the drive now; `newest`: the checkpoint that is, or empty.
  Saving(Setup setup, int done, std::filesystem::path newest);

  /// Whether the state after `done` steps is to be saved now.
  bool is_due(int done) const;

  /// Whether the state after `done` steps is to be saved when the run ends there.
  bool is_left(int done) const { return setup_.at_end && times_.is_unsaved(done); }

  /// The checkpoint that was written last, or empty.
  const std::filesystem::path& newest() const { return newest_; }

  // The next three save the state after `done` steps; nothing may be in flight. With `last_good`,
  // the newest checkpoint of at most so many steps stays, beyond train.keep, until learned_from().
  // Where a save fails, the checkpoints before stay as they are.

  /// Tells the observer when it fails; then it is due again after a while.
  void try_to_save(int done, std::optional<int> last_good);

  /// At the end of a run: tells the observer when it fails, waits, and tries again, as SavingTimes
  /// has it. An observer that wants to stop meanwhile, and not before, ends the wait by a last try,
  /// whose error is thrown.
  void save_at_last(int done, std::optional<int> last_good);

  /// Likewise what is_left(). Throws ResourceError that says what is lost.
  void save_the_rest(int done, std::optional<int> last_good);

  /// A step has shown the state after `good` steps to be sound. When that is the newest checkpoint,
  /// or a later state, what is beyond train.keep goes.
  void learned_from(int good);

 private:
  void save(int done, std::optional<int> last_good);
  std::string not_saved(int done, const std::exception& error) const;

  Setup setup_;
  SavingTimes times_;
  std::filesystem::path newest_;
  std::optional<int> in_doubt_;  // the steps done in it, while an older one stays for its sake
};

/// What an error says, without torch's stack.
std::string words_of(const std::exception& error);

}  // namespace ferry
