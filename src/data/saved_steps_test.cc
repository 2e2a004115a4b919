#include "data/saved_steps.h"

#include <gtest/gtest.h>

#include "data/files.h"
#include "data/scratch_folder.h"

namespace ferry {
namespace {

std::filesystem::path save(const SavedSteps& steps, std::int64_t step, const std::string& text,
                           std::optional<std::int64_t> last_good = std::nullopt) {
  UnsavedStep unsaved = steps.begin(step);
  write_file(unsaved.folder() / "weights", text);
  Manifest manifest;
  manifest.step = step;
  return steps.commit(std::move(unsaved), manifest, last_good);
}

std::string newest(const std::filesystem::path& root) {
  return saved_steps(root).back().filename();
}

TEST(SavedSteps, TheNewestFewAreKept) {
  const ScratchFolder folder;
  const SavedSteps steps(folder / "checkpoints", 2);
  EXPECT_EQ(folder.count(), 0u);  // nothing is written before the first one is begun
  for (const std::int64_t step : {5, 10, 15}) save(steps, step, "x");
  EXPECT_EQ(saved_steps(folder / "checkpoints"),
            (std::vector{folder / "checkpoints/step-000010", folder / "checkpoints/step-000015"}));
}

TEST(SavedSteps, TheLastGoodOneStaysBeyondThoseThatAreKept) {
  const ScratchFolder folder;
  const SavedSteps steps(folder.path(), 2);
  for (const std::int64_t step : {5, 10}) save(steps, step, "good");
  for (const std::int64_t step : {15, 20, 25}) save(steps, step, "collapsed", /*last_good=*/11);
  EXPECT_EQ(saved_steps(folder.path()),
            (std::vector{folder / "step-000010", folder / "step-000020", folder / "step-000025"}));
  save(steps, 30, "well again");
  EXPECT_EQ(saved_steps(folder.path()),
            (std::vector{folder / "step-000025", folder / "step-000030"}));
}

TEST(SavedSteps, StepsAreOrderedByNumberNotByName) {
  const ScratchFolder folder;
  const SavedSteps steps(folder.path(), 9);
  save(steps, 300'000, "x");
  save(steps, 2'000'000, "x");
  EXPECT_EQ(newest(folder.path()), "step-2000000");
}

TEST(SavedSteps, LaterStepsGoWithTheFirstCheckpointOfARunThatWentBack) {
  const ScratchFolder folder;
  const SavedSteps steps(folder.path(), 3);
  for (const std::int64_t step : {10, 20, 30}) save(steps, step, "x");
  EXPECT_EQ(steps.set_later_aside(10).size(), 2u);
  EXPECT_EQ(saved_steps(folder.path()), (std::vector{folder / "step-000010"}));
  EXPECT_TRUE(std::filesystem::exists(folder / "step-000020.later" / kManifestName));
  EXPECT_TRUE(steps.set_later_aside(10).empty());
  save(steps, 12, "x");
  EXPECT_EQ(saved_steps(folder.path()),
            (std::vector{folder / "step-000010", folder / "step-000012"}));
  EXPECT_EQ(folder.count(), 2u);
}

TEST(SavedSteps, OfTwoRunsThatWentBackTheLaterOnesCheckpointIsSetAside) {
  const ScratchFolder folder;
  const SavedSteps steps(folder / "saved", 3, folder / "model");
  for (const std::int64_t step : {10, 20}) save(steps, step, "first");
  steps.set_later_aside(10);
  EXPECT_EQ(std::filesystem::read_symlink(folder / "model"), "saved/step-000010");
  save(steps, 20, "second");
  EXPECT_EQ(steps.set_later_aside(10), (std::vector{folder / "saved/step-000020.later"}));
  EXPECT_EQ(read_file(folder / "saved/step-000020.later/weights", 1_KiB), "second");
}

TEST(SavedSteps, WhatCouldNotBeRemovedGoesWithTheNextCheckpoint) {
  const ScratchFolder folder;
  const SavedSteps steps(folder.path(), 2);
  folder.put("step-000002.tmp/state/x", "");
  save(steps, 3, "x");
  EXPECT_EQ(folder.count(), 1u);
}

TEST(SavedSteps, ACheckpointOfTheSameStepIsReplaced) {
  const ScratchFolder folder;
  const SavedSteps steps(folder.path(), 2);
  save(steps, 5, "old");
  const auto path = save(steps, 5, "new one");
  EXPECT_EQ(std::filesystem::file_size(path / "weights"), 7u);
  EXPECT_EQ(folder.count(), 1u);
}

TEST(SavedSteps, AnInterruptedSaveIsIgnoredAndCleanedUp) {
  const ScratchFolder folder;
  save(SavedSteps(folder.path(), 2), 5, "x");
  folder.put("step-000007.tmp/weights", "half");
  folder.put("step-000008/weights", "a folder without a manifest");
  folder.put("notes.tmp/keep", "not ours");
  const SavedSteps steps(folder.path(), 2);
  EXPECT_EQ(newest(folder.path()), "step-000005");
  EXPECT_EQ(unfinished_steps(folder.path()), (std::vector{folder / "step-000007.tmp"}));
  steps.remove_unfinished();
  EXPECT_FALSE(std::filesystem::exists(folder / "step-000007.tmp"));
  EXPECT_TRUE(std::filesystem::exists(folder / "notes.tmp"));
}

TEST(SavedSteps, AnAbandonedSaveLeavesNothing) {
  const ScratchFolder folder;
  const SavedSteps steps(folder.path(), 2);
  {
    const UnsavedStep unsaved = steps.begin(3);
    write_file(unsaved.folder() / "weights", "x");
  }
  EXPECT_EQ(folder.count(), 0u);
}

TEST(SavedSteps, ARunsFolderStandsForItsNewestCheckpoint) {
  const ScratchFolder folder;
  const SavedSteps steps(folder / "run/checkpoints", 2);
  EXPECT_NE(user_error([&] { checkpoint_at(folder / "run"); }).find("expected a run's folder"),
            std::string::npos);
  save(steps, 5, "x");
  save(steps, 10, "x");
  EXPECT_EQ(checkpoint_at(folder / "run"), folder / "run/checkpoints/step-000010");
  EXPECT_EQ(checkpoint_at(folder / "run/checkpoints/step-000005"),
            folder / "run/checkpoints/step-000005");
}

TEST(SavedSteps, ALinkLeadsToTheCheckpointWrittenLast) {
  const ScratchFolder folder;
  const SavedSteps steps(folder / "checkpoints", 1, folder / "model");
  for (const std::int64_t step : {5, 10}) save(steps, step, "x");
  EXPECT_EQ(std::filesystem::read_symlink(folder / "model"), "checkpoints/step-000010");
  EXPECT_EQ(read_file(folder / "model/weights", 1_KiB), "x");
  EXPECT_EQ(folder.count(), 2u);
}

TEST(SavedSteps, AFolderInTheLinksPlaceStays) {
  const ScratchFolder folder;
  folder.put("model/config.json", "somebody's");
  const SavedSteps steps(folder / "checkpoints", 1, folder / "model");
  EXPECT_TRUE(std::filesystem::exists(save(steps, 5, "x")));
  EXPECT_EQ(read_file(folder / "model/config.json", 1_KiB), "somebody's");
}

TEST(SavedSteps, ACheckpointIsSavedThoughItsLinkCannotBeMade) {
  const ScratchFolder folder;
  folder.put("model.tmp", "in the way");
  const SavedSteps steps(folder / "checkpoints", 1, folder / "model");
  struct : PhaseListener {
    void phase(const std::string& what) override { said = what; }
    std::string said;
  } listener;
  Manifest manifest;
  manifest.step = 5;
  const auto path = steps.commit(steps.begin(5), manifest, std::nullopt, listener);
  EXPECT_EQ(saved_steps(folder / "checkpoints"), std::vector{path});
  EXPECT_NE(listener.said.find(path.string() + " is saved, but " + (folder / "model").string() +
                               " does not lead to it: "),
            std::string::npos);
  EXPECT_EQ(read_file(folder / "model.tmp", 1_KiB), "in the way");
}

TEST(SavedSteps, AFullDriveWhileTheManifestIsWrittenKeepsTheOlderCheckpoint) {
  const ScratchFolder folder;
  const SavedSteps steps(folder.path(), 1);
  save(steps, 5, "x");
  UnsavedStep unsaved = steps.begin(6);
  write_file(unsaved.folder() / "weights", "x");
  Manifest manifest;
  manifest.step = 6;
  {
    const FileSizeLimit full(20);
    EXPECT_THROW(steps.commit(std::move(unsaved), manifest), ResourceError);
  }
  EXPECT_EQ(newest(folder.path()), "step-000005");
  EXPECT_EQ(folder.count(), 1u);
}

}  // namespace
}  // namespace ferry
