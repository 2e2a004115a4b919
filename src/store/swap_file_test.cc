#include "store/swap_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "base/error.h"
#include "store/temporary_folders.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

Bytes blocks_of(const SwapFile& file) {
  struct stat status = {};
  EXPECT_EQ(fstat(file.descriptor().number(), &status), 0);
  return Bytes{status.st_blocks} * 512;
}

TEST(SwapFile, HasNoNameFromItsFirstMomentOn) {
  const TemporaryFolders folders(1);
  for (const auto birth :
       {SwapFile::Birth::nameless_where_possible, SwapFile::Birth::named_and_unlinked}) {
    const SwapFile file(folders[0], birth);
    EXPECT_TRUE(fs::is_empty(folders[0]));
    struct stat status = {};
    ASSERT_EQ(fstat(file.descriptor().number(), &status), 0);
    EXPECT_EQ(status.st_nlink, 0u);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
  }
}

TEST(SwapFile, AllBytesAreTakenAtOnceAndTold) {
  const TemporaryFolders folders(1);
  SwapFile file(folders[0]);
  Bytes told;
  file.reserve(3_MiB, "ssd0", [&](Bytes more) { told += more; });
  EXPECT_EQ(told, 3_MiB);
  EXPECT_GE(blocks_of(file), 3_MiB);
}

TEST(SwapFile, AFileLargerThanAllowedIsRefusedInsteadOfASignal) {
  const TemporaryFolders folders(1);
  SwapFile file(folders[0]);
  rlimit usual{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &usual), 0);
  const rlimit small{.rlim_cur = 1 << 20, .rlim_max = usual.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string text;
  try {
    file.reserve(2_MiB, "ssd0", [](Bytes) {});
  } catch (const ResourceError& error) {
    text = error.what();
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &usual), 0);
  EXPECT_EQ(text, "ssd0 needs 2.0 MiB in " + folders[0].string() +
                      ", files may have 1.0 MiB (ulimit -f)");
}

TEST(SwapFile, AFolderThatCannotBeWrittenIsAResourceError) {
  EXPECT_THROW(SwapFile("/nowhere/at/all"), UserError);
  EXPECT_THROW(SwapFile("/proc"), ResourceError);
}

}  // namespace
}  // namespace ferry
