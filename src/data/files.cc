#include "data/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

std::string free_space(const fs::path& path) {
  struct statvfs status = {};
  if (statvfs(path.c_str(), &status) != 0) return "unknown";
  return to_string(Bytes{static_cast<std::int64_t>(status.f_bavail * status.f_frsize)});
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

InputFile::InputFile(fs::path path) : path_(std::move(path)) {
  descriptor_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0 && (errno == ENOENT || errno == ENOTDIR)) {
    throw UserError(path_.string() + ": no such file");
  }
  if (descriptor_ < 0) throw system_error("cannot open " + path_.string(), errno);
  struct stat status = {};
  const bool known = fstat(descriptor_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    close(descriptor_);
    throw UserError(path_.string() + ": expected a regular file");
  }
  size_ = {status.st_size};
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  return *this;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void InputFile::read(Bytes offset, std::span<std::byte> destination) const {
  std::size_t done = 0;
  while (done < destination.size()) {
    const auto at = offset.count + static_cast<std::int64_t>(done);
    const ssize_t got =
        pread(descriptor_, destination.data() + done, destination.size() - done, at);
    if (got > 0) {
      done += static_cast<std::size_t>(got);
    } else if (got == 0) {
      throw ResourceError("read failed: " + path_.string() + " ends at byte " + std::to_string(at) +
                          ", " + std::to_string(destination.size() - done) +
                          " bytes early: it has become shorter since it was opened");
    } else if (errno != EINTR) {
      throw system_error("read failed: " + path_.string() + " at byte " + std::to_string(at),
                         errno);
    }
  }
}

bool is_git_lfs_pointer(const InputFile& file) {
  constexpr std::string_view kBegin = "version https://git-lfs.github.com/spec/";
  std::array<char, kBegin.size()> begin{};
  if (file.size() < Bytes{std::ssize(kBegin)} || file.size() > 1_KiB) return false;
  file.read(0_B, std::as_writable_bytes(std::span(begin)));
  return std::string_view(begin.data(), begin.size()) == kBegin;
}

void require_content(const fs::path& path) {
  const InputFile file(path);
  if (file.size() == 0_B) throw UserError(path.string() + ": the file is empty");
  if (is_git_lfs_pointer(file)) throw UserError(path.string() + ": " + kGitLfsPointer);
}

OutputFile::OutputFile(fs::path path, Bytes size) : path_(std::move(path)), size_(size) {
  descriptor_ = open(temporary().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) throw system_error("cannot create " + temporary().string(), errno);
  if (size.count == 0) return;
  int result;
  do {
    result = fallocate(descriptor_, 0, 0, size.count);
  } while (result != 0 && errno == EINTR);
  // Some file systems cannot reserve; there a full drive is found by write().
  if (result == 0 || errno == EOPNOTSUPP || errno == ENOSYS) return;
  const int error = errno;
  const std::string have = free_space(temporary());
  close(descriptor_);
  unlink(temporary().c_str());
  throw system_error(
      "cannot reserve " + path_.string() + ": needs " + to_string(size) + ", has " + have + " free",
      error);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(temporary().c_str());
}

fs::path OutputFile::temporary() const {
  fs::path name = path_;
  name += ".tmp";
  return name;
}

void OutputFile::write(Bytes offset, std::span<const std::byte> source) {
  FERRY_CHECK(descriptor_ >= 0, path_.string() + " is already committed");
  FERRY_CHECK(offset.count >= 0 && offset.count + std::ssize(source) <= size_.count,
              path_.string() + ": a write outside the declared size");
  std::size_t done = 0;
  while (done < source.size()) {
    const auto at = offset.count + static_cast<std::int64_t>(done);
    const ssize_t put = pwrite(descriptor_, source.data() + done, source.size() - done, at);
    if (put > 0) {
      done += static_cast<std::size_t>(put);
    } else if (put == 0 || errno != EINTR) {
      throw system_error("write failed: " + path_.string() + " at byte " + std::to_string(at) +
                             ", " + std::to_string(done) + " of " + std::to_string(source.size()) +
                             " bytes written, " + free_space(temporary()) + " free",
                         put == 0 ? EIO : errno);
    }
  }
}

void OutputFile::sync() {
  FERRY_CHECK(descriptor_ >= 0, path_.string() + " is already committed");
  if (fsync(descriptor_) != 0) throw system_error("sync failed: " + path_.string(), errno);
}

void OutputFile::commit() {
  sync();
  if (rename(temporary().c_str(), path_.c_str()) != 0) {
    throw system_error("cannot rename " + temporary().string() + " to " + path_.string(), errno);
  }
  const int result = close(std::exchange(descriptor_, -1));
  if (result != 0) throw system_error("close failed: " + path_.string(), errno);
  sync_folder(path_.parent_path());
}

void write_file(const fs::path& path, const std::string& text) {
  OutputFile file(path, {std::ssize(text)});
  file.write({0}, std::as_bytes(std::span(text)));
  file.commit();
}

std::string read_file(const fs::path& path, Bytes limit) {
  const InputFile file(path);
  if (file.size() > limit) {
    throw UserError(path.string() + ": " + to_string(file.size()) + ", expected at most " +
                    to_string(limit));
  }
  std::string text(static_cast<std::size_t>(file.size().count), '\0');
  file.read({0}, std::as_writable_bytes(std::span(text)));
  return text;
}

void sync_folder(const fs::path& folder) {
  sync_path(folder.empty() ? fs::path(".") : folder, O_RDONLY | O_DIRECTORY);
}

void sync_file(const fs::path& file) { sync_path(file, O_RDONLY); }

}  // namespace ferry
