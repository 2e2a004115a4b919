#include "base/free_space.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ferry {
namespace {

TEST(FreeSpace, AFolderHasSome) { EXPECT_GT(free_space(testing::TempDir()), 0_B); }

TEST(FreeSpace, AFolderThatIsNotThereIsTheUsersError) {
  EXPECT_THROW(free_space("/nowhere/at/all"), UserError);
}

}  // namespace
}  // namespace ferry
