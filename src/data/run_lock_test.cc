#include "data/run_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <optional>
#include <vector>

#include "data/scratch_folder.h"

namespace ferry {
namespace {

TEST(RunLock, ASecondOneIsToldWhoHasTheFolder) {
  const ScratchFolder folder;
  const RunLock lock(folder.path(), "ferry train job.yaml");
  const std::string said = user_error([&] { RunLock(folder.path(), "ferry train other.yaml"); });
  EXPECT_NE(said.find("in use by process " + std::to_string(getpid()) + " on "), std::string::npos)
      << said;
  EXPECT_NE(said.find(" UTC: ferry train job.yaml\n  try: "), std::string::npos) << said;
}

TEST(RunLock, ItLeavesNoTrace) {
  const ScratchFolder folder;
  const std::filesystem::path runs = folder / "runs";
  { const RunLock lock(runs / "deep/", "a"); }
  EXPECT_EQ(folder.count(), 0u);
  folder.put("runs/job.yaml", "");
  { const RunLock lock(runs, "b"); }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(runs), {}), 1);
  {
    const RunLock lock(runs / "used", "c");
    folder.put("runs/used/log.jsonl", "");
  }
  EXPECT_TRUE(std::filesystem::exists(runs / "used/log.jsonl"));
}

TEST(RunLock, AnotherRunsFileStaysWhereTheFolderWasMoved) {
  const ScratchFolder folder;
  const std::filesystem::path run = folder / "run";
  std::optional<RunLock> first(std::in_place, run, "a");
  std::filesystem::rename(run, folder / "moved");
  const RunLock second(run, "b");
  first.reset();
  EXPECT_NE(user_error([&] { RunLock(run, "c"); }).find(": b\n"), std::string::npos);
}

TEST(RunLock, WhoeverIsRefusedLeavesTheHoldersFile) {
  const ScratchFolder folder;
  const RunLock lock(folder.path(), "a");
  for (int i = 0; i < 2; ++i) {
    EXPECT_NE(user_error([&] { RunLock(folder.path(), "b"); }).find(": a\n"), std::string::npos);
  }
}

TEST(RunLock, TheLockOfADeadProcessBlocksNobody) {
  const ScratchFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    const RunLock lock(folder.path(), "the dead one");
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(std::filesystem::exists(folder / kRunLockName));
  EXPECT_EQ(user_error([&] { RunLock(folder.path(), "the next"); }), "");
}

// Freeing so much memory takes a while, and until then the lock is held.
TEST(RunLock, OneThatIsBeingKilledIsWaitedFor) {
  constexpr std::size_t kBytes = std::size_t{1} << 28;
  const ScratchFolder folder;
  std::array<int, 2> ready{};
  ASSERT_EQ(pipe(ready.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    const RunLock lock(folder.path(), "the killed one");
    const std::vector<char> memory(kBytes, 1);
    const ssize_t told = write(ready[1], memory.data(), 1);
    while (told > 0) pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_NE(user_error([&] { RunLock(folder.path(), "too early"); }), "");
  kill(child, SIGKILL);
  EXPECT_EQ(user_error([&] { RunLock(folder.path(), "the next"); }), "");
  waitpid(child, nullptr, 0);
  for (const int end : ready) close(end);
}

TEST(RunLock, AProgramThatTheHolderStartsDoesNotHoldIt) {
  const ScratchFolder folder;
  std::optional<RunLock> lock(std::in_place, folder.path(), "a");
  const pid_t child = fork();
  if (child == 0) execlp("sleep", "sleep", "60", nullptr);
  lock.reset();
  // Until its exec the child has the lock too.
  std::string said;
  for (int i = 0; i < 1000; ++i) {
    said = user_error([&] { RunLock(folder.path(), "b"); });
    if (said.empty()) break;
    usleep(10'000);
  }
  EXPECT_EQ(said, "");
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST(RunLock, ALinkOrAFileInTheWayIsNotWrittenTo) {
  const ScratchFolder folder;
  folder.put("victim", "precious");
  std::filesystem::create_symlink("victim", folder / kRunLockName);
  EXPECT_THROW(RunLock(folder.path(), "a"), ResourceError);
  EXPECT_EQ(std::filesystem::file_size(folder / "victim"), 8u);
  EXPECT_NE(user_error([&] { RunLock(folder / "victim", "a"); }).find("found a file"),
            std::string::npos);
}

}  // namespace
}  // namespace ferry
