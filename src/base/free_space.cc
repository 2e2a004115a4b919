#include "base/free_space.h"

#include <sys/statvfs.h>

#include <cerrno>

#include "base/error.h"

namespace ferry {
namespace {

constexpr Bytes kNoLimitTold{std::int64_t{1} << 60};  // by ramfs and some network file systems

}  // namespace

Bytes free_space(const std::filesystem::path& path) {
  struct statvfs status = {};
  if (statvfs(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) {
      throw UserError(path.string() + ": expected a folder on the drive; there is none");
    }
    throw system_error("cannot tell the free space of " + path.string(), errno);
  }
  if (status.f_blocks == 0) return kNoLimitTold;
  return {static_cast<std::int64_t>(status.f_bavail * status.f_frsize)};
}

}  // namespace ferry
