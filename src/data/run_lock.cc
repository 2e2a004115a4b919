#include "data/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <ranges>
#include <string_view>
#include <thread>
#include <utility>

#include "data/ending_process.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

constexpr int kAttempts = 100;  // against others that come and go at the same moment

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text.data();
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown host";
}

/// What the holder wrote into the file, on one line.
std::string holder_of(int descriptor) {
  std::array<char, 1024> text{};
  const ssize_t got = pread(descriptor, text.data(), text.size(), 0);
  std::string holder(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  while (holder.ends_with('\n')) holder.pop_back();
  std::ranges::replace_if(
      holder, [](unsigned char c) { return c < ' ' || c == 127; }, '?');
  return holder.empty() ? "another process" : holder;
}

void write_holder(int descriptor, const fs::path& file, const std::string& command) {
  const std::string text = "process " + std::to_string(getpid()) + " on " + host_name() +
                           " since " + now_text() + ": " + command + "\n";
  const bool written = ftruncate(descriptor, 0) == 0 &&
                       pwrite(descriptor, text.data(), text.size(), 0) == std::ssize(text);
  if (!written) throw system_error("cannot write " + file.string(), errno);
}

/// Whether the process that a lock's file names is on this machine and ending.
bool names_ending_process(const std::string& holder) {
  int process = 0;
  std::array<char, 256> host{};
  const int found = std::sscanf(holder.c_str(), "process %d on %255s", &process, host.data());
  return found == 2 && host_name() == host.data() && is_ending(process);
}

/// Takes the file's lock, or says that another process has it (EWOULDBLOCK) or what failed. One
/// that is ending is waited for: what restarts a run that was killed comes before its memory is
/// freed.
int lock_file(int descriptor) {
  constexpr auto kLongest = std::chrono::minutes(2);
  constexpr auto kPause = std::chrono::milliseconds(10);
  const auto until = std::chrono::steady_clock::now() + kLongest;
  while (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    const bool waits = error == EWOULDBLOCK && std::chrono::steady_clock::now() < until &&
                       names_ending_process(holder_of(descriptor));
    if (!waits) return error;
    std::this_thread::sleep_for(kPause);
  }
  return 0;
}

/// True when `descriptor` is the file that has the name `file` now.
bool is_named(int descriptor, const fs::path& file) {
  struct stat open_file = {}, named = {};
  return fstat(descriptor, &open_file) == 0 && lstat(file.c_str(), &named) == 0 &&
         open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

}  // namespace

RunLock::RunLock(const fs::path& folder, const std::string& command)
    : folder_(folder), file_(folder / kRunLockName) {
  try {
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      make_folders();
      if (take(command)) return;
    }
    throw ResourceError("cannot lock " + file_.string() + ": it comes and goes");
  } catch (...) {
    release();
    throw;
  }
}

RunLock::~RunLock() { release(); }

void RunLock::release() {
  // The name goes first: whoever waits for the lock finds that its file has no name, and opens
  // anew.
  if (descriptor_ >= 0) {
    if (is_named(descriptor_, file_)) {
      unlink(file_.c_str());
    } else {
      made_.clear();  // they were moved: what has their names is another's
    }
    close(std::exchange(descriptor_, -1));
  }
  for (const fs::path& folder : made_ | std::views::reverse) rmdir(folder.c_str());
  made_.clear();
}

void RunLock::make_folders() {
  std::vector<fs::path> missing;
  std::error_code error;
  for (fs::path path = fs::absolute(folder_).lexically_normal(); !fs::exists(path, error);
       path = path.parent_path()) {
    if (path.has_filename()) missing.push_back(path);
  }
  for (const fs::path& path : missing | std::views::reverse) {
    if (mkdir(path.c_str(), 0777) == 0) {
      made_.push_back(path);
    } else if (errno != EEXIST) {
      throw system_error("cannot make the folder " + path.string() + " (out)", errno);
    }
  }
  if (!fs::is_directory(folder_, error)) {
    throw UserError(folder_.string() + ": expected a folder (out), found a file");
  }
}

bool RunLock::take(const std::string& command) {
  constexpr int kFlags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC;
  const int opened = open(file_.c_str(), kFlags, 0644);
  if (opened < 0 && errno == ENOENT) return false;  // another process has just removed the folder
  if (opened < 0) throw system_error("cannot write into " + folder_.string() + " (out)", errno);
  if (const int error = lock_file(opened); error != 0) {
    const std::string holder = holder_of(opened);
    close(opened);
    if (error != EWOULDBLOCK) throw system_error("cannot lock " + file_.string(), error);
    throw FolderInUse(folder_.string() + " is in use by " + holder +
                      "\n  try: wait until it has ended, or another `out`");
  }
  if (!is_named(opened, file_)) {  // its holder removed it between the two calls
    close(opened);
    return false;
  }
  descriptor_ = opened;
  write_holder(descriptor_, file_, command);
  return true;
}

}  // namespace ferry
