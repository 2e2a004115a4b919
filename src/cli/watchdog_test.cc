#include "cli/watchdog.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "spec/fake_box.h"

namespace ferry {
namespace {

struct Ended {
  int exit_code = 0;
  std::string said;
};

/// Watches over a shell that runs `script`, in which $ROOT is the box.
Ended watch(const FakeBox& box, const std::string& script) {
  std::vector<std::string> words = {"sh", "-c", "ROOT=" + box.path().string() + "; " + script};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  testing::internal::CaptureStderr();
  const int exit_code = watch_over("/bin/sh", arguments.data(), box.path());
  return {exit_code, testing::internal::GetCapturedStderr()};
}

bool says(const Ended& ended, const std::string& words) {
  return ended.said.find(words) != std::string::npos;
}

TEST(Watchdog, ReturnsTheChildsExitCode) {
  const FakeBox box("watchdog-exit");
  EXPECT_EQ(watch(box, "exit 0").exit_code, 0);
  EXPECT_EQ(watch(box, "exit 4").exit_code, 4);
}

TEST(Watchdog, AKillByTheKernelIsToldWithWhatWasHeldAndWhatHolds) {
  const FakeBox box("watchdog-killed");
  box.write("proc/vmstat", "nr_free_pages 1\noom_kill 3");
  box.write("proc/self/cgroup", "0::/job");
  box.write("sys/fs/cgroup/job/memory.max", "1073741824");
  box.write("sys/fs/cgroup/job/memory.current", "0");
  const Ended ended = watch(box, "echo oom_kill 4 > $ROOT/proc/vmstat; kill -KILL $$");
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_TRUE(says(ended, "killed by the kernel, which was short of memory: the run held "))
      << ended.said;
  EXPECT_TRUE(says(ended, "1.0 GiB could be taken (/sys/fs/cgroup/job/memory.max)")) << ended.said;
  EXPECT_TRUE(says(ended, "budget.host")) << ended.said;
}

TEST(Watchdog, AKillBySomeoneElseIsNoMatterOfMemory) {
  const FakeBox box("watchdog-kill-9");
  box.write("proc/vmstat", "oom_kill 3");
  const Ended ended = watch(box, "kill -KILL $$");
  EXPECT_EQ(ended.exit_code, 128 + SIGKILL);
  EXPECT_TRUE(says(ended, "someone else")) << ended.said;
  EXPECT_FALSE(says(ended, "budget.host")) << ended.said;
}

TEST(Watchdog, AnAbortKeepsItsExitCodeAndAStopSignalIsAnInterrupt) {
  const FakeBox box("watchdog-abort");
  EXPECT_EQ(watch(box, "kill -ABRT $$").exit_code, 128 + SIGABRT);
  EXPECT_EQ(watch(box, "kill -TERM $$").exit_code, 130);
}

/// Runs watch_over() in a process of its own, whose child writes its id into ROOT/child.
pid_t watch_aside(const FakeBox& box, const std::string& script) {
  const pid_t watchdog = fork();
  if (watchdog == 0) _exit(watch(box, script).exit_code);
  return watchdog;
}

/// What the file holds, when it holds something.
std::string wait_for_text(const std::filesystem::path& file) {
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    std::ifstream(file) >> text;
    if (!text.empty()) return text;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return {};
}

TEST(Watchdog, PassesASignalOn) {
  const FakeBox box("watchdog-signal");
  const pid_t watchdog = watch_aside(
      box, "trap 'exit 7' HUP; echo ready > $ROOT/child; while true; do sleep 0.01; done");
  ASSERT_EQ(wait_for_text(box.path() / "child"), "ready");
  kill(watchdog, SIGHUP);
  int status = 0;
  ASSERT_EQ(waitpid(watchdog, &status, 0), watchdog);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(Watchdog, TheChildDiesWithIt) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);  // the orphan becomes a child of this process
  const FakeBox box("watchdog-dies");
  const pid_t watchdog = watch_aside(box, "echo $$ > $ROOT/child; exec sleep 60");
  const std::string child = wait_for_text(box.path() / "child");
  ASSERT_FALSE(child.empty());
  kill(watchdog, SIGKILL);
  ASSERT_EQ(waitpid(watchdog, nullptr, 0), watchdog);
  int status = 0;
  ASSERT_EQ(waitpid(std::stoi(child), &status, 0), std::stoi(child));
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

}  // namespace
}  // namespace ferry
