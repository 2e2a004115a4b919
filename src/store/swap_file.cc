#include "store/swap_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/free_space.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kReservedAtOnce = 16_GiB;  // some file systems take seconds for it

int named_and_unlinked(const fs::path& folder) {
  std::string name = (folder / ".ferry-swap-XXXXXX").string();
  const int descriptor = mkostemp(name.data(), O_CLOEXEC);  // O_EXCL: no link stands for it
  if (descriptor >= 0) unlink(name.c_str());
  return descriptor;
}

int nameless_file(const fs::path& folder, SwapFile::Birth birth) {
  if (!fs::is_directory(folder)) {
    throw UserError(folder.string() + ": expected a folder on the drive; there is none");
  }
  int descriptor = -1;
  if (birth == SwapFile::Birth::nameless_where_possible) {
    descriptor = open(folder.c_str(), O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
  }
  if (descriptor < 0) descriptor = named_and_unlinked(folder);
  if (descriptor < 0) throw system_error("cannot make a file in " + folder.string(), errno);
  return descriptor;
}

/// Switches O_DIRECT. After the file was made: an open() that refuses the flag may make it as well.
bool set_direct(int descriptor, bool direct) {
  const int flags = fcntl(descriptor, F_GETFL);
  return flags >= 0 &&
         fcntl(descriptor, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

}  // namespace

Descriptor::Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

Descriptor Descriptor::duplicate() const {
  const int number = fcntl(number_, F_DUPFD_CLOEXEC, 0);
  if (number < 0) throw system_error("cannot duplicate a file descriptor", errno);
  return Descriptor(number);
}

SwapFile::SwapFile(const fs::path& folder, Birth birth)
    : folder_(folder),
      descriptor_(nameless_file(folder, birth)),
      direct_(set_direct(descriptor_.number(), true)) {}

void SwapFile::stop_direct() {
  if (!set_direct(descriptor_.number(), false)) {
    throw system_error("cannot leave direct I/O in " + folder_.string(), errno);
  }
  direct_ = false;
}

void SwapFile::reserve(Bytes size, const std::string& whose,
                       const std::function<void(Bytes more)>& reserved) {
  const auto refuse = [&](Bytes have) {
    throw ResourceError(whose + " needs " + to_string(size) + " in " + folder_.string() +
                        ", the drive has " + to_string(have) + " free");
  };
  rlimit limit = {};  // a file beyond it would end the process with a signal
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && static_cast<rlim_t>(size.count) > limit.rlim_cur) {
    throw ResourceError(
        whose + " needs " + to_string(size) + " in " + folder_.string() + ", files may have " +
        to_string(Bytes{static_cast<std::int64_t>(limit.rlim_cur)}) + " (ulimit -f)");
  }
  if (const Bytes have = free_space(folder_); size > have) refuse(have);
  for (Bytes at; at < size;) {
    const Bytes more = std::min(kReservedAtOnce, size - at);
    if (fallocate(descriptor_.number(), 0, at.count, more.count) != 0) {
      if (errno == EINTR) continue;
      if (errno == ENOSPC) refuse(free_space(folder_) + at);  // others took some meanwhile
      if (errno != EOPNOTSUPP) {
        throw system_error(
            whose + ": cannot reserve " + to_string(size) + " in " + folder_.string(), errno);
      }
      // A file system that cannot reserve: the size at least, and writes may find the drive full.
      if (ftruncate(descriptor_.number(), (at + more).count) != 0) {
        throw system_error(whose + ": cannot set the size of a file in " + folder_.string(), errno);
      }
    }
    at += more;
    reserved(more);
  }
}

}  // namespace ferry
