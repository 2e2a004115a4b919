#include "data/held_folder.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "data/scratch_folder.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

TEST(HeldFolder, IsInPlaceUntilItIsMovedOrRemoved) {
  const ScratchFolder scratch;
  fs::create_directory(scratch / "run");
  const HeldFolder held(scratch / "run");
  scratch.put("run/log.jsonl", "");
  EXPECT_TRUE(held.is_in_place());
  fs::rename(scratch / "run", scratch / "moved");
  EXPECT_FALSE(held.is_in_place());
  fs::create_directory(scratch / "run");
  EXPECT_FALSE(held.is_in_place()) << "another folder has its name";
  fs::remove(scratch / "run");
  fs::rename(scratch / "moved", scratch / "run");
  EXPECT_TRUE(held.is_in_place());
  fs::remove_all(scratch / "run");
  fs::create_directory(scratch / "run");
  EXPECT_FALSE(held.is_in_place());
}

TEST(HeldFolder, ALinkLeadsToIt) {
  const ScratchFolder scratch;
  fs::create_directory(scratch / "run");
  fs::create_directory_symlink("run", scratch / "link");
  const HeldFolder held(scratch / "link");
  EXPECT_TRUE(held.is_in_place());
  EXPECT_THROW(HeldFolder(scratch / "none"), ResourceError);
}

}  // namespace
}  // namespace ferry
