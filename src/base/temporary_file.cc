#include "base/temporary_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/write_all.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = ".tmp";
constexpr std::size_t kDigits = 8;

fs::path random_name(const fs::path& path) {
  std::uint32_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) {
    throw system_error("no random number for a name beside " + path.string(), errno);
  }
  char digits[kDigits + 1];
  std::snprintf(digits, sizeof digits, "%08x", number);
  fs::path name = path;
  return name += std::string(kMark) + digits;
}

/// Whether `name` is what random_name() makes for a file called `final_name`.
bool is_temporary_of(const std::string& name, const std::string& final_name) {
  const std::size_t digits = final_name.size() + kMark.size();
  return name.size() == digits + kDigits && name.starts_with(final_name + std::string(kMark)) &&
         name.find_first_not_of("0123456789abcdef", digits) == std::string::npos;
}

bool is_linked(int descriptor) {
  struct stat status = {};
  return fstat(descriptor, &status) == 0 && status.st_nlink > 0;
}

/// Removes a temporary file whose writer is gone: its lock can be had.
void remove_if_left(const fs::path& temporary) {
  const int descriptor =
      open(temporary.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (descriptor < 0) return;  // gone meanwhile, a link, or another's
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) unlink(temporary.c_str());
  close(descriptor);
}

void remove_left_behind(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::error_code ignored;  // what cannot be removed does no harm
  fs::directory_iterator entries(folder, ignored);
  for (; !ignored && entries != fs::directory_iterator(); entries.increment(ignored)) {
    if (is_temporary_of(entries->path().filename().string(), path.filename().string())) {
      remove_if_left(entries->path());
    }
  }
}

}  // namespace

TemporaryFile::TemporaryFile(fs::path path) : path_(std::move(path)) {
  remove_left_behind(path_);
  while (true) {
    temporary_ = random_name(path_);
    descriptor_ =
        open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (descriptor_ < 0 && errno == EEXIST) continue;
    if (descriptor_ < 0) throw system_error("cannot create " + temporary_.string(), errno);
    // Another writer may have taken it for left behind before the lock was had. Where files cannot
    // be locked at all, none is ever taken for that.
    flock(descriptor_, LOCK_EX);
    if (is_linked(descriptor_)) return;
    close(descriptor_);
  }
}

TemporaryFile::TemporaryFile(TemporaryFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

TemporaryFile::~TemporaryFile() {
  if (!is_open()) return;
  unlink(temporary_.c_str());
  close(descriptor_);
}

void TemporaryFile::append(std::string_view text) { write_all(descriptor_, text, path_); }

void TemporaryFile::rename() {
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    throw system_error("cannot rename " + temporary_.string() + " to " + path_.string(), errno);
  }
  if (close(std::exchange(descriptor_, -1)) != 0) {
    throw system_error("close failed: " + path_.string(), errno);
  }
}

}  // namespace ferry
