// What a machine may refuse, refused for real: by the kernel, to the thread that asks. A space is
// reached in the next best way, which is told with the reason, and holds what is written.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "store/drive_space.h"
#include "store/host_slab.h"
#include "store/temporary_folders.h"

namespace ferry {
namespace {

/// A system call that fails with `error` where it has all of `flags` in argument `argument`.
struct Refusal {
  unsigned call = 0;
  unsigned argument = 0;
  unsigned flags = 0;
  int error = EPERM;
};

constexpr unsigned kTemporaryFileFlag = O_TMPFILE & ~O_DIRECTORY;
constexpr Refusal kNoUring{.call = __NR_io_uring_setup};  // as most containers refuse it
constexpr Refusal kNoDirect{.call = __NR_fcntl, .argument = 2, .flags = O_DIRECT, .error = EINVAL};
constexpr Refusal kNoNameless{
    .call = __NR_openat, .argument = 2, .flags = kTemporaryFileFlag, .error = EOPNOTSUPP};

/// From now on the kernel refuses this to the calling thread and to those that it starts. False
/// where it has no filters.
bool refuse(const Refusal& refusal) {
  const auto offset_of_argument =
      static_cast<unsigned>(offsetof(seccomp_data, args) + 8 * refusal.argument);
  std::array<sock_filter, 7> steps = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refusal.call, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset_of_argument),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, refusal.flags),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refusal.flags, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(refusal.error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program = {.len = steps.size(), .filter = steps.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// The calling thread may lock no more memory than others may, even as root.
bool drop_memory_privilege() {
  __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, 2> data = {};
  if (syscall(SYS_capget, &header, data.data()) != 0) return false;
  data[0].effective &= ~(1U << CAP_IPC_LOCK);
  return syscall(SYS_capset, &header, data.data()) == 0;
}

/// How the space in `folder` was reached, after what is written there was read again. `prepare`
/// runs on the thread that opens the space; where it returns false, so does this function: "".
std::string way_in(const std::filesystem::path& folder, const std::function<bool()>& prepare) {
  std::string way;
  std::thread([&] {
    if (!prepare()) return;
    DriveSpace space({.name = "ssd0", .parts = {{folder, 1}}, .size = 1_MiB});
    HostSlab written(1_MiB), found(1_MiB);
    for (std::size_t i = 0; i < written.bytes().size(); ++i) {
      written.bytes()[i] = static_cast<std::byte>(i * 31 + i / 256);
    }
    space.use_memory(written.bytes());
    space.write_now(0_B, written.bytes());
    space.read_now(0_B, found.bytes());
    EXPECT_TRUE(std::ranges::equal(written.bytes(), found.bytes()));
    way = space.io();
  }).join();
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  return way;
}

std::string way_with(const std::filesystem::path& folder, const std::vector<Refusal>& refusals) {
  return way_in(folder, [&] { return std::ranges::all_of(refusals, refuse); });
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Each skips where a container refuses the refusal, or the folder lacks what is to be refused.

TEST(Refusals, WithoutUringThreadsServe) {
  const TemporaryFolders folders(1);
  const std::string way = way_with(folders[0], {kNoUring});
  if (way.empty()) GTEST_SKIP() << "no filters of system calls here";
  EXPECT_TRUE(has(way, "threads, ")) << way;
  const bool built_without = has(way, "FERRY_URING=OFF"), never_direct = has(way, "O_DIRECT");
  EXPECT_TRUE(has(way, "io_uring_setup: Operation not permitted") || built_without || never_direct)
      << way;
}

TEST(Refusals, WithoutDirectIoThePageCacheServes) {
  const TemporaryFolders folders(1);
  const std::string way = way_with(folders[0], {kNoDirect});
  if (way.empty()) GTEST_SKIP() << "no filters of system calls here";
  EXPECT_EQ(way, "threads, through the page cache (the file system refuses O_DIRECT)");
}

TEST(Refusals, WithoutNamelessFilesANameIsTakenAwayAtOnce) {
  const TemporaryFolders folders(1);
  const std::string as_it_is = way_with(folders[0], {});
  const std::string way = way_with(folders[0], {kNoNameless});
  if (way.empty()) GTEST_SKIP() << "no filters of system calls here";
  EXPECT_EQ(way, as_it_is);  // nothing is lost by it; way_in() looks into the folder
}

TEST(Refusals, AllAtOnce) {
  const TemporaryFolders folders(1);
  const std::string way = way_with(folders[0], {kNoUring, kNoDirect, kNoNameless});
  if (way.empty()) GTEST_SKIP() << "no filters of system calls here";
  EXPECT_TRUE(has(way, "through the page cache")) << way;
}

TEST(Refusals, MemoryThatMayNotBeLockedIsNotRegisteredAndTold) {
  const TemporaryFolders folders(1);
  if (!has(way_with(folders[0], {}), "io_uring, direct")) GTEST_SKIP() << "no io_uring here";
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &before), 0);
  const rlimit small = {.rlim_cur = 64 << 10, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &small), 0);
  const std::string way = way_in(folders[0], drop_memory_privilege);
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &before), 0);
  EXPECT_TRUE(has(way, "io_uring, direct; memory is not registered: io_uring_register")) << way;
  EXPECT_TRUE(has(way, "RLIMIT_MEMLOCK is 64.0 KiB")) << way;
}

/// A file system of its own in an empty folder, as long as it lives.
class Mounted {
 public:
  Mounted(std::filesystem::path folder, const char* type, const std::string& options)
      : folder_(std::move(folder)),
        there_(mount(type, folder_.c_str(), type, 0, options.c_str()) == 0) {}
  ~Mounted() {
    if (there_) umount2(folder_.c_str(), MNT_DETACH);
  }
  Mounted(const Mounted&) = delete;
  Mounted& operator=(const Mounted&) = delete;

  bool there() const { return there_; }

 private:
  const std::filesystem::path folder_;
  const bool there_;
};

TEST(Refusals, AFileSystemInMemoryWithoutDirectIoServes) {
  const TemporaryFolders folders(1);
  const Mounted mounted(folders[0], "ramfs", "");
  if (!mounted.there()) GTEST_SKIP() << "only root mounts file systems";
  EXPECT_EQ(way_with(folders[0], {}),
            "threads, through the page cache (the file system refuses O_DIRECT)");
}

TEST(Refusals, OnAnOverlayFilesServe) {
  const TemporaryFolders folders(2);
  const std::filesystem::path parts = folders[1];
  for (const char* part : {"lower", "upper", "work"}) {
    std::filesystem::create_directory(parts / part);
  }
  const std::string options = "lowerdir=" + (parts / "lower").string() +
                              ",upperdir=" + (parts / "upper").string() +
                              ",workdir=" + (parts / "work").string();
  const Mounted mounted(folders[0], "overlay", options);
  if (!mounted.there()) GTEST_SKIP() << "only root mounts file systems, and some not this one";
  EXPECT_NE(way_with(folders[0], {}), "");
}

}  // namespace
}  // namespace ferry
