#include "planner/programs/harmony_program.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "plan/verify.h"
#include "planner/programs/harmony_experiments.h"

namespace ferry {
namespace {

const std::filesystem::path kFolder = FERRY_SOURCE_DIR "/../shared/data/harmony_profiles";

TEST(HarmonyProgram, EveryShippedScheduleTakesWhatHarmonySays) {
  if (!std::filesystem::exists(kFolder)) GTEST_SKIP() << "no " << kFolder;
  const auto rows = read_harmony_rows(kFolder);
  EXPECT_EQ(rows.size(), 34);
  for (const HarmonyRow& row : rows) {
    for (const bool prefetch : {false, true}) {
      SCOPED_TRACE(row.model + " " + row.schedule + (prefetch ? " P" : " NP"));
      const auto& expected = prefetch ? row.with_prefetch : row.without_prefetch;
      const HarmonyProgram program = write_harmony_program(row.problem, row.tuple, prefetch);
      const auto violation = verify(program.plan);
      ASSERT_FALSE(violation) << violation->message;
      const HarmonyEstimate ours = estimate(program);
      constexpr double kPrinted = 0.51e-6;  // six digits behind the point
      EXPECT_NEAR(ours.step.seconds(), expected.step_seconds, kPrinted);
      EXPECT_NEAR(ours.compute_share, expected.compute_share, kPrinted);
      EXPECT_NEAR(ours.end_idle, expected.end_idle, kPrinted);
      EXPECT_EQ(program.peak, row.peak);
      for (const auto& [name, bytes] : row.volumes) {
        const auto found = program.volumes.find(name);
        EXPECT_EQ(found == program.volumes.end() ? 0 : found->second, bytes) << name;
      }
    }
  }
}

}  // namespace
}  // namespace ferry
