#include "planner/programs/fuyou_program.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "plan/verify.h"
#include "planner/programs/fuyou_experiments.h"

namespace ferry {
namespace {
TEST(FuyouProgram, Rows) {
  for (const auto& row : fuyou_experiments())
    std::printf("%-4s %-30s %8.1f %8.1f %+6.1f%% %s\n", row.figure.c_str(), row.name.c_str(),
                row.ours, row.published, 100 * row.error(),
                std::abs(row.error()) > row.allowed_error ? "OUT" : "");
}
}  // namespace
}  // namespace ferry
