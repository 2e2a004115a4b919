#include "base/temporary_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <string>

namespace ferry {
namespace {

namespace fs = std::filesystem;

class TemporaryFileTest : public testing::Test {
 protected:
  TemporaryFileTest() { fs::create_directory(folder_); }
  ~TemporaryFileTest() override { fs::remove_all(folder_); }

  std::string text_of(const std::string& name) const {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::ptrdiff_t files() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / "temporary_file_test";
};

TEST_F(TemporaryFileTest, AppearsWholeOrNotAtAll) {
  {
    TemporaryFile file(folder_ / "x");
    file.append("new");
    EXPECT_FALSE(fs::exists(folder_ / "x"));
  }
  EXPECT_EQ(files(), 0);

  TemporaryFile file(folder_ / "x");
  file.append("new");
  file.rename();
  EXPECT_EQ(text_of("x"), "new");
  EXPECT_EQ(files(), 1);
}

TEST_F(TemporaryFileTest, ALinkInTheWayIsNotWrittenThrough) {
  std::ofstream(folder_ / "victim") << "mine";
  fs::create_symlink("victim", folder_ / "x.tmp");
  fs::create_symlink("victim", folder_ / "x");
  TemporaryFile file(folder_ / "x");
  file.append("new");
  file.rename();
  EXPECT_EQ(text_of("victim"), "mine");
  EXPECT_EQ(text_of("x"), "new");
}

TEST_F(TemporaryFileTest, WhatADeadWriterLeftIsRemovedAndALivingOnesIsNot) {
  std::ofstream(folder_ / "x.tmp0123abcd") << "left behind";
  std::ofstream(folder_ / "x.tmpnotes") << "not ours";
  std::ofstream(folder_ / "y.tmp0123abcd") << "of another file";
  TemporaryFile first(folder_ / "x");
  TemporaryFile second(folder_ / "x");
  EXPECT_FALSE(fs::exists(folder_ / "x.tmp0123abcd"));
  EXPECT_EQ(files(), 4);

  first.append("first");
  second.append("second");
  first.rename();
  EXPECT_EQ(text_of("x"), "first");
  second.rename();
  EXPECT_EQ(text_of("x"), "second");
}

}  // namespace
}  // namespace ferry
