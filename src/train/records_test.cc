#include "train/records.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>

#include "base/input_file.h"
#include "data/scratch_folder.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

/// Puts `other` in place of the descriptor by which this process has the file open.
void replace_descriptor(const fs::path& file, int other) {
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (fs::read_symlink(entry, gone) == file) dup2(other, std::stoi(entry.path().filename()));
  }
}

TEST(StepLog, LinesThatTheDriveRefusedAreThereOnceItIsSynced) {
  const ScratchFolder folder;
  StepLog log(folder / "log.jsonl", 0);
  {
    const FileSizeLimit full(10);
    log.evaluated(1, 2.5);
    EXPECT_TRUE(log.new_trouble().has_value());
    EXPECT_FALSE(log.new_trouble().has_value()) << "said once";
  }
  EXPECT_FALSE(log.is_whole());
  log.sync();
  EXPECT_TRUE(log.is_whole());
  EXPECT_FALSE(log.new_trouble().has_value());
  EXPECT_EQ(read_file(folder / "log.jsonl", 1_KiB), "{\"eval_loss\":2.5,\"step\":1}\n");
}

TEST(StepLog, ASyncThatFailsIsTrouble) {
  const ScratchFolder folder;
  StepLog log(folder / "log.jsonl", 0);
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(pipe(pipe_ends.data()), 0);
  replace_descriptor(folder / "log.jsonl", pipe_ends[1]);  // takes lines and cannot be synced
  log.evaluated(1, 2.5);
  EXPECT_FALSE(log.new_trouble().has_value());
  log.sync();
  const auto trouble = log.new_trouble();
  ASSERT_TRUE(trouble.has_value());
  EXPECT_NE(trouble->find("sync failed: "), std::string::npos) << *trouble;
  EXPECT_NE(trouble->find("log.jsonl"), std::string::npos) << *trouble;
  for (const int end : pipe_ends) close(end);
}

}  // namespace
}  // namespace ferry
