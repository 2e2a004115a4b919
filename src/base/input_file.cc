#include "base/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

std::string kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "no file";
}

}  // namespace

InputFile::InputFile(fs::path path) : path_(std::move(path)) {
  // Without O_NONBLOCK a FIFO that nobody writes to, or a device, would be waited for.
  descriptor_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor_ < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG)) {
    throw UserError(path_.string() + ": cannot be read: " + std::generic_category().message(errno));
  }
  if (descriptor_ < 0) throw system_error("cannot open " + path_.string(), errno);
  struct stat status = {};
  const bool known = fstat(descriptor_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    close(descriptor_);
    throw UserError(path_.string() + ": is " + kind_of(status.st_mode) +
                    "; expected a regular file");
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
  const std::size_t done = read_up_to(offset, destination);
  if (done == destination.size()) return;
  const auto at = offset.count + static_cast<std::int64_t>(done);
  throw ResourceError("read failed: " + path_.string() + " ends at byte " + std::to_string(at) +
                      ", " + std::to_string(destination.size() - done) +
                      " bytes early: it has become shorter since it was opened");
}

std::size_t InputFile::read_up_to(Bytes offset, std::span<std::byte> destination) const {
  std::size_t done = 0;
  while (done < destination.size()) {
    const auto at = offset.count + static_cast<std::int64_t>(done);
    const ssize_t got =
        pread(descriptor_, destination.data() + done, destination.size() - done, at);
    if (got == 0) break;
    if (got > 0) {
      done += static_cast<std::size_t>(got);
    } else if (errno != EINTR) {
      throw system_error("read failed: " + path_.string() + " at byte " + std::to_string(at),
                         errno);
    }
  }
  return done;
}

bool is_git_lfs_pointer(const InputFile& file) {
  constexpr std::string_view kBegin = "version https://git-lfs.github.com/spec/";
  std::array<char, kBegin.size()> begin{};
  if (file.size() < Bytes{std::ssize(kBegin)} || file.size() > 1_KiB) return false;
  file.read(0_B, std::as_writable_bytes(std::span(begin)));
  return std::string_view(begin.data(), begin.size()) == kBegin;
}

void require_regular(const fs::path& path) { const InputFile file(path); }

void require_content(const fs::path& path) {
  const InputFile file(path);
  if (file.size() == 0_B) throw UserError(path.string() + ": the file is empty");
  if (is_git_lfs_pointer(file)) throw UserError(path.string() + ": " + kGitLfsPointer);
}

std::string read_file(const fs::path& path, Bytes limit) {
  const InputFile file(path);
  if (file.size() > limit) {
    throw UserError(path.string() + ": " + std::to_string(file.size().count) +
                    " bytes; expected at most " + std::to_string(limit.count));
  }
  std::string text(static_cast<std::size_t>(file.size().count), '\0');
  file.read({0}, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace ferry
