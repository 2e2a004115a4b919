#include "data/held_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/error.h"

namespace ferry {

HeldFolder::HeldFolder(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = open(path_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0) throw system_error("cannot open the folder " + path_.string(), errno);
}

HeldFolder::~HeldFolder() { close(descriptor_); }

// While it is open no other folder gets its number.
bool HeldFolder::is_in_place() const {
  struct stat held = {}, named = {};
  return fstat(descriptor_, &held) == 0 && stat(path_.c_str(), &named) == 0 &&
         held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

}  // namespace ferry
