#include "train/state_pieces.h"

#include <gtest/gtest.h>

#include "plan/sample_plans.h"

namespace ferry {
namespace {

TEST(StatePieces, FollowEachOtherInTheirBlock) {
  SampleShape shape;
  shape.pieces = 3;
  const Plan plan = sample_mobius(shape);
  const IdVector<ValueId, ElementRange> ranges = state_elements(plan);
  // 6,144 bytes of bf16 weights: 3,072 elements.
  std::int64_t next = 0;
  for (const ValueId id : plan.values.ids()) {
    const Value& value = plan.values[id];
    if (value.kind != ValueKind::state) {
      EXPECT_EQ(ranges[id].count, 0) << value_name(value);
      continue;
    }
    if (value.block != BlockId(1)) continue;
    EXPECT_EQ(ranges[id].first, next);
    EXPECT_EQ(ranges[id].count, 1024);
    next = ranges[id].end();
  }
  EXPECT_EQ(next, 3072);
}

TEST(StatePieces, WholeStatesHaveAllElements) {
  const Plan plan = sample_mobius({});
  const IdVector<ValueId, ElementRange> ranges = state_elements(plan);
  for (const ValueId id : plan.values.ids()) {
    if (plan.values[id].kind != ValueKind::state || plan.values[id].block != BlockId(1)) continue;
    EXPECT_EQ(ranges[id].first, 0);
    EXPECT_EQ(ranges[id].count, 3072);
  }
}

TEST(StatePieces, RangesHaveInCommonWhatLiesInBoth) {
  EXPECT_EQ(common({0, 10}, {4, 10}).first, 4);
  EXPECT_EQ(common({0, 10}, {4, 10}).count, 6);
  EXPECT_EQ(common({4, 10}, {0, 5}).end(), 5);
  EXPECT_EQ(common({0, 4}, {4, 4}).count, 0);
  EXPECT_EQ(common({8, 4}, {0, 4}).count, 0);
}

}  // namespace
}  // namespace ferry
