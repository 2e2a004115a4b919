#include "data/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/free_space.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

/// For the message of an error: "1.5 GiB", where the file is.
std::string space_beside(const fs::path& file) {
  try {
    return to_string(free_space(folder_of(file)));
  } catch (const std::runtime_error&) {
    return "unknown";
  }
}

void sync_path(const fs::path& path, int flags) {
  const int descriptor = open(path.c_str(), flags | O_CLOEXEC);
  if (descriptor < 0) throw system_error("cannot open " + path.string() + " to sync it", errno);
  const int result = fsync(descriptor);
  const int error = errno;
  close(descriptor);
  if (result != 0) throw system_error("sync failed: " + path.string(), error);
}

}  // namespace

OutputFile::OutputFile(fs::path path, Bytes size) : file_(std::move(path)), size_(size) {
  if (size.count == 0) return;
  int result;
  do {
    result = fallocate(file_.descriptor(), 0, 0, size.count);
  } while (result != 0 && errno == EINTR);
  // Some file systems cannot reserve; there a full drive is found by write().
  if (result == 0 || errno == EOPNOTSUPP || errno == ENOSYS) return;
  const int error = errno;
  throw system_error("cannot reserve " + this->path().string() + ": needs " + to_string(size) +
                         ", has " + space_beside(this->path()) + " free",
                     error);
}

void OutputFile::write(Bytes offset, std::span<const std::byte> source) {
  FERRY_CHECK(file_.is_open(), path().string() + " is already committed");
  FERRY_CHECK(offset.count >= 0 && offset.count + std::ssize(source) <= size_.count,
              path().string() + ": a write outside the declared size");
  std::size_t done = 0;
  while (done < source.size()) {
    const auto at = offset.count + static_cast<std::int64_t>(done);
    const ssize_t put = pwrite(file_.descriptor(), source.data() + done, source.size() - done, at);
    if (put > 0) {
      done += static_cast<std::size_t>(put);
    } else if (put == 0 || errno != EINTR) {
      const int error = put == 0 ? EIO : errno;
      throw system_error("write failed: " + path().string() + " at byte " + std::to_string(at) +
                             ", " + std::to_string(done) + " of " + std::to_string(source.size()) +
                             " bytes written, " + space_beside(path()) + " free",
                         error);
    }
  }
}

void OutputFile::sync() {
  FERRY_CHECK(file_.is_open(), path().string() + " is already committed");
  if (fsync(file_.descriptor()) != 0) throw system_error("sync failed: " + path().string(), errno);
}

void OutputFile::commit() {
  sync();
  file_.rename();
  sync_folder(folder_of(path()));
}

void write_file(const fs::path& path, const std::string& text) {
  OutputFile file(path, {std::ssize(text)});
  file.write({0}, std::as_bytes(std::span(text)));
  file.commit();
}

void sync_folder(const fs::path& folder) {
  sync_path(folder.empty() ? fs::path(".") : folder, O_RDONLY | O_DIRECTORY);
}

void sync_file(const fs::path& file) { sync_path(file, O_RDONLY); }

}  // namespace ferry
