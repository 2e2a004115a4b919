#include "planner/write/allocate.h"

#include <gtest/gtest.h>

#include <array>

namespace ferry {
namespace {

TEST(SlotRing, TheSlotUsedLongestAgoIsTakenFirst) {
  SlotRing ring(100_B, 10_B, 3);
  EXPECT_EQ(ring.take(1, {}), 100_B);
  EXPECT_EQ(ring.take(2, {}), 110_B);
  EXPECT_EQ(ring.take(3, {}), 120_B);
  EXPECT_EQ(ring.find(1), 100_B);  // now value 2 is the oldest
  EXPECT_EQ(ring.take(4, {}), 110_B);
  EXPECT_FALSE(ring.find(2));
}

TEST(SlotRing, KeptValuesStay) {
  SlotRing ring({}, 10_B, 3);
  ring.take(1, {});
  ring.take(2, {});
  ring.take(3, {});
  EXPECT_EQ(ring.take(4, std::array<ValueId, 2>{1, 2}), 20_B);
  EXPECT_TRUE(ring.find(1));
  EXPECT_TRUE(ring.find(2));
}

TEST(Visits, NeighboursStartFromOppositeEnds) {
  std::vector<Value> values(4);
  for (Value& value : values) value.bytes = 512_B;
  std::vector<VisitMemory> visits(2);
  visits[0].values = {0, 1};
  visits[1].values = {2, 3};
  visits[0].need = visits[1].need = 1024_B;
  EXPECT_EQ(region_sizes(visits).least, 1024_B);
  EXPECT_EQ(region_sizes(visits).full, 2048_B);

  lay_out_visits(visits, values, {}, 1536_B);
  EXPECT_EQ(visits[0].offsets.at(0), 0_B);
  EXPECT_EQ(visits[0].offsets.at(1), 512_B);
  EXPECT_EQ(visits[1].offsets.at(0), 1024_B);  // free while visit 0 runs
  EXPECT_EQ(visits[1].offsets.at(1), 512_B);   // shared with value 1
}

}  // namespace
}  // namespace ferry
