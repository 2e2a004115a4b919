#include "data/scratch_folder.h"

#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/check.h"

namespace ferry {

namespace fs = std::filesystem;

ScratchFolder::ScratchFolder() {
  std::string name = (fs::temp_directory_path() / "ferry-XXXXXX").string();
  FERRY_CHECK(mkdtemp(name.data()) != nullptr, "cannot make a folder for a test");
  path_ = name;
}

ScratchFolder::~ScratchFolder() { fs::remove_all(path_); }

fs::path ScratchFolder::put(const std::string& name, const std::string& bytes) const {
  fs::create_directories((path_ / name).parent_path());
  std::ofstream(path_ / name, std::ios::binary) << bytes;
  return path_ / name;
}

std::size_t ScratchFolder::count() const {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
}

FileSizeLimit::FileSizeLimit(std::size_t bytes) : handler_before_(std::signal(SIGXFSZ, SIG_IGN)) {
  rlimit limit = {};
  FERRY_CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0, "getrlimit");
  before_ = limit.rlim_cur;
  limit.rlim_cur = bytes;
  FERRY_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit");
}

FileSizeLimit::~FileSizeLimit() {
  rlimit limit = {};
  FERRY_CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0, "getrlimit");
  limit.rlim_cur = before_;
  FERRY_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit");
  std::signal(SIGXFSZ, handler_before_);
}

}  // namespace ferry
