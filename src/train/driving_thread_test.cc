#include "train/driving_thread.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "base/error.h"

namespace ferry {
namespace {

int nice_value() {
  errno = 0;
  return getpriority(PRIO_PROCESS, 0);
}

TEST(DrivingThread, GivesWayWithoutSlowingItsCaller) {
  const int before = nice_value();
  int inside = 0;
  on_driving_thread(true, [&] { inside = nice_value(); });
  EXPECT_EQ(inside, std::min(before + 10, 19));
  EXPECT_EQ(nice_value(), before);
  on_driving_thread(false, [&] { inside = nice_value(); });
  EXPECT_EQ(inside, before);
}

TEST(DrivingThread, WhatTheWorkThrowsReachesTheCaller) {
  EXPECT_THROW(on_driving_thread(true, [] { throw std::runtime_error("broken"); }),
               std::runtime_error);
}

/// From now on the kernel refuses this process a thread, as a control group's pids.max does.
void refuse_threads() {
  std::array<sock_filter, 5> steps = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog filter{.len = steps.size(), .filter = steps.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    std::abort();
  }
}

/// Ends this process as the program ends where the machine refused: with the words and 3.
[[noreturn]] void drive_without_threads() {
  refuse_threads();
  try {
    on_driving_thread(true, [] {});
  } catch (const ResourceError& error) {
    std::fputs(error.what(), stderr);
    std::_Exit(3);
  }
  std::_Exit(0);
}

TEST(DrivingThread, AMachineThatRefusesAThreadIsTheOwnersError) {
  EXPECT_EXIT(drive_without_threads(), testing::ExitedWithCode(3),
              "cannot start a thread to drive steps: Resource temporarily unavailable; see the");
}

}  // namespace
}  // namespace ferry
