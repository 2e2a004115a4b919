#include "store/own_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <stdexcept>

#include "store/mapping.h"

namespace ferry {
namespace {

// Other memory of the process, and the kernel's way to count pages per core, are well below this.
constexpr Bytes kSlack = 8_MiB;

TEST(OwnMemory, AMappingCountsOnceItsPagesAreBacked) {
  const Bytes before = own_memory(getpid());
  Mapping mapping(64_MiB);
  EXPECT_LT(own_memory(getpid()) - before, kSlack);

  mapping.touch(1);
  EXPECT_GE(own_memory(getpid()) - before, 64_MiB - kSlack);
  EXPECT_LE(own_memory(getpid()) - before, 64_MiB + kSlack);
}

// Not instrumented: what the thread sanitizer notes of each page read is this process's own memory.
__attribute__((no_sanitize("thread"))) long sum_of_pages(const char* bytes, std::size_t size) {
  long sum = 0;
  for (std::size_t at = 0; at < size; at += 4096) sum += bytes[at];
  return sum;
}

// A mapped checkpoint is the page cache's, which the kernel takes back.
TEST(OwnMemory, AFileThatIsMappedAndReadDoesNotCount) {
  char name[] = "own-memory-XXXXXX";  // in the build folder: /tmp may be memory itself
  const int file = mkstemp(name);
  ASSERT_GE(file, 0);
  unlink(name);
  constexpr std::size_t kSize = 64 << 20;
  ASSERT_EQ(ftruncate(file, kSize), 0);
  const Bytes before = own_memory(getpid());
  auto* const bytes =
      static_cast<const char*>(mmap(nullptr, kSize, PROT_READ, MAP_PRIVATE, file, 0));
  ASSERT_NE(bytes, MAP_FAILED);

  EXPECT_EQ(sum_of_pages(bytes, kSize), 0);
  EXPECT_LT(own_memory(getpid()) - before, kSlack);
  munmap(const_cast<char*>(bytes), kSize);
  close(file);
}

TEST(OwnMemory, WhatChildrenHoldCountsWithThem) {
  std::array<int, 2> ready = {};
  ASSERT_EQ(pipe(ready.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    Mapping mapping(64_MiB);
    mapping.touch(1);
    _exit(write(ready[1], "", 1) == 1 && pause() == -1 ? 0 : 1);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_GE(own_memory_with_children(getpid()) - own_memory(getpid()), 64_MiB);
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  close(ready[0]);
  close(ready[1]);
}

// As the tokeniser's processes share what was loaded before they were forked.
TEST(OwnMemory, WhatChildrenShareCountsOnce) {
  Mapping shared(64_MiB);
  shared.touch(1);
  const Bytes alone = own_memory(getpid());
  std::array<pid_t, 3> children = {};
  for (pid_t& child : children) {
    child = fork();
    if (child == 0) _exit(pause());
  }
  EXPECT_GE(own_memory_with_children(getpid()), alone - kSlack);
  EXPECT_LE(own_memory_with_children(getpid()), alone + kSlack);
  for (const pid_t child : children) {
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
  }
}

TEST(OwnMemory, AProcessThatHasEndedHoldsNothing) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  siginfo_t ended = {};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(own_memory(child), 0_B);  // a zombie
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(own_memory(child), 0_B);
}

TEST(PeakWatch, MemoryThatWasGivenBackStaysInThePeak) {
  const Bytes before = own_memory(getpid());
  PeakWatch watch([before] { return own_memory(getpid()) - before; });
  {
    Mapping mapping(64_MiB);
    mapping.touch(1);
    std::this_thread::sleep_for(20 * PeakWatch::kInterval);
  }
  EXPECT_LT(own_memory(getpid()) - before, kSlack);
  EXPECT_GE(watch.peak(), 64_MiB - kSlack);
}

TEST(PeakWatch, AskingLooksAtThisMoment) {
  std::atomic<std::int64_t> held = 0;
  PeakWatch watch([&] { return Bytes{held}; });
  held = 3;
  const Bytes asked = watch.peak();
  held = 2;
  EXPECT_EQ(asked, 3_B);
  EXPECT_EQ(watch.peak(), 3_B);
}

TEST(PeakWatch, WhatCannotBeMeasuredIsThrownWhereThePeakIsAsked) {
  PeakWatch watch([]() -> Bytes { throw std::runtime_error("no answer"); });
  EXPECT_THROW(watch.peak(), std::runtime_error);
}

}  // namespace
}  // namespace ferry
