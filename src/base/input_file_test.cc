#include "base/input_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/error.h"

namespace ferry {
namespace {

std::string refusal(const std::filesystem::path& path) {
  try {
    read_file(path, 1_KiB);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(InputFile, WhatIsNoRegularFileIsRefusedWithoutWaiting) {
  const std::string fifo = testing::TempDir() + "input_file_test.fifo";
  std::filesystem::remove(fifo);
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(refusal(fifo), fifo + ": is a FIFO; expected a regular file");
  std::filesystem::remove(fifo);
  EXPECT_EQ(refusal("/dev/zero"), "/dev/zero: is a device; expected a regular file");
  EXPECT_EQ(refusal("/"), "/: is a directory; expected a regular file");
  EXPECT_EQ(refusal("/no/such"), "/no/such: cannot be read: No such file or directory");
}

TEST(InputFile, AFileBeyondTheLimitIsRefused) {
  const std::string path = testing::TempDir() + "input_file_test.txt";
  std::ofstream(path) << std::string(1024, 'x');
  EXPECT_EQ(read_file(path, 1_KiB), std::string(1024, 'x'));
  std::ofstream(path) << std::string(1025, 'x');
  EXPECT_EQ(refusal(path), path + ": 1025 bytes; expected at most 1024");
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace ferry
