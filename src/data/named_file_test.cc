#include "data/named_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include "data/scratch_folder.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// A device that takes everything and keeps nothing; false where none can be made.
bool make_null_device(const fs::path& node) {
  return mknod(node.c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0 && std::ofstream(node).is_open();
}

TEST(NamedFile, ARegularFileIsReplaced) {
  const ScratchFolder folder;
  write_named_file(folder / "x", "first, which is longer");
  write_named_file(folder / "x", "second");
  EXPECT_EQ(text_of(folder / "x"), "second");
  EXPECT_EQ(folder.count(), 1u);
}

TEST(NamedFile, ALinkStaysAndItsFileIsReplaced) {
  const ScratchFolder folder;
  fs::create_directory(folder / "far");
  folder.put("far/file", "old");
  fs::create_symlink("file", folder / "far/link");
  fs::create_symlink("far/link", folder / "x");
  std::ifstream reader(folder / "far/file");

  write_named_file(folder / "x", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "x"));
  EXPECT_TRUE(fs::is_symlink(folder / "far/link"));
  EXPECT_EQ(text_of(folder / "far/file"), "new");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(reader), {}), "old");  // another file
}

TEST(NamedFile, AFileIsMadeWhereALinkLeads) {
  const ScratchFolder folder;
  fs::create_symlink(folder / "to come", folder / "x");
  write_named_file(folder / "x", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "x"));
  EXPECT_EQ(text_of(folder / "to come"), "new");
}

TEST(NamedFile, LinksThatLeadNowhereAreRefused) {
  const ScratchFolder folder;
  fs::create_symlink("y", folder / "x");
  fs::create_symlink("x", folder / "y");
  EXPECT_THROW(write_named_file(folder / "x", "new"), ResourceError);
  EXPECT_TRUE(fs::is_symlink(folder / "x"));
}

TEST(NamedFile, AFifoIsWrittenInto) {
  const ScratchFolder folder;
  const fs::path fifo = folder / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  fs::create_symlink("fifo", folder / "link");
  const int reader = open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
  write_named_file(fifo, "one, ");
  write_named_file(folder / "link", "two");
  EXPECT_TRUE(fs::is_fifo(fifo));
  char text[16] = {};
  EXPECT_EQ(read(reader, text, sizeof text), 8);
  EXPECT_EQ(std::string(text), "one, two");
  close(reader);
}

TEST(NamedFile, ADeviceStaysOne) {
  const ScratchFolder folder;
  if (!make_null_device(folder / "null")) GTEST_SKIP() << "no device can be made here";
  write_named_file(folder / "null", "new");
  EXPECT_TRUE(fs::is_character_file(folder / "null"));
}

TEST(NamedFile, ADirectoryIsRefused) {
  const ScratchFolder folder;
  EXPECT_EQ(user_error([&] { write_named_file(folder.path(), "new"); }),
            folder.path().string() + ": is a directory; expected a file to write");
  EXPECT_EQ(folder.count(), 0u);
}

}  // namespace
}  // namespace ferry
