#include "exec/timeline.h"

#include <gtest/gtest.h>

namespace ferry {
namespace {

Plan two_tasks() {
  return parse_plan(
      "ferry-plan 1\nstrategy test\n"
      "step train micro_batches=1 micro_batch_size=1 sequence=1 precision=fp32\n"
      "place host kind=host budget=0 workspace=0\n"
      "place gpu0 kind=device budget=0 workspace=0\n"
      "resource load kind=host place=host\n"
      "resource up kind=copy place=gpu0 rate=1e6\n"
      "task \"X\\ kind=load on=load micros=2\n"
      "task X>gpu0 kind=copy on=up bytes=3 after=\"X\\\n",
      "test");
}

TEST(Timeline, UseSumsTimeAndBytesPerResource) {
  const Plan plan = two_tasks();
  const Timeline timeline{{{{0, 0}, {0}, {2}}, {{0, 1}, {2}, {5}}, {{1, 0}, {5}, {8}}}};
  const auto use = resource_use(plan, timeline);
  EXPECT_DOUBLE_EQ(use[0].busy.count, 5);
  EXPECT_DOUBLE_EQ(use[0].utilisation, 5.0 / 8);
  EXPECT_EQ(use[1].bytes, 3_B);
  EXPECT_DOUBLE_EQ(use[1].busy.count, 3);
}

TEST(Timeline, NothingThatRanIsNoUse) {
  const auto use = resource_use(two_tasks(), {});
  ASSERT_EQ(use.size(), 2U);
  EXPECT_EQ(use[0].utilisation, 0);
}

}  // namespace
}  // namespace ferry
