#include "data/named_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/error.h"
#include "base/write_all.h"
#include "data/files.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

/// What links lead to from `path`, whether or not it is there. Throws ResourceError when they lead
/// round in a circle.
fs::path without_links(fs::path path) {
  constexpr int kMostLinks = 40;  // as the kernel
  std::error_code unknown;  // what cannot be looked at cannot be written either, which is told
  for (int links = 0; fs::is_symlink(path, unknown); ++links) {
    if (links == kMostLinks) throw system_error("cannot write " + path.string(), ELOOP);
    path = path.parent_path() / fs::read_symlink(path);
  }
  return path;
}

/// A FIFO waits for its reader here.
void write_into(const fs::path& path, const std::string& text) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
  if (descriptor < 0) throw system_error("cannot open " + path.string(), errno);
  try {
    write_all(descriptor, text, path);
  } catch (const ResourceError&) {
    close(descriptor);
    throw;
  }
  if (close(descriptor) != 0) throw system_error("close failed: " + path.string(), errno);
}

}  // namespace

void write_named_file(const fs::path& path, const std::string& text) {
  std::error_code unknown;
  const fs::file_status there = fs::status(path, unknown);
  if (fs::is_directory(there)) {
    throw UserError(path.string() + ": is a directory; expected a file to write");
  }
  if (fs::exists(there) && !fs::is_regular_file(there)) {
    write_into(path, text);
  } else {
    write_file(without_links(path), text);
  }
}

}  // namespace ferry
