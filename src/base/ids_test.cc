#include "base/ids.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <type_traits>
#include <unordered_set>

namespace ferry {
namespace {

using AppleId = Id<struct AppleTag>;
using PearId = Id<struct PearTag>;

TEST(Ids, AnIdThatNobodySetIsNone) {
  EXPECT_FALSE(AppleId().valid());
  EXPECT_EQ(AppleId().number(), -1);
  EXPECT_TRUE(AppleId(0).valid());
}

TEST(Ids, IdsOfDifferentThingsAreDifferentTypes) {
  EXPECT_FALSE((std::is_same_v<AppleId, PearId>));
  EXPECT_FALSE((std::is_assignable_v<AppleId&, PearId>));
}

TEST(Ids, IdsAreComparedAndHashedByTheirNumber) {
  EXPECT_EQ(AppleId(3), AppleId(3));
  EXPECT_NE(AppleId(3), AppleId(4));
  EXPECT_LT(AppleId(), AppleId(0));
  const std::unordered_set<AppleId> set = {AppleId(1), AppleId(2), AppleId(1)};
  EXPECT_EQ(set.size(), 2U);
}

TEST(Ids, AnIdIsPrintedAsItsNumber) {
  std::ostringstream text;
  text << AppleId(7);
  EXPECT_EQ(text.str(), "7");
  EXPECT_EQ(to_string(AppleId()), "-1");
}

TEST(Ids, AVectorCountsItsIdsFromZero) {
  IdVector<AppleId, std::string> names;
  EXPECT_EQ(names.add("boskoop"), AppleId(0));
  EXPECT_EQ(names.add("elstar"), AppleId(1));
  EXPECT_EQ(names[AppleId(1)], "elstar");
  std::string all;
  for (const AppleId id : names.ids()) all += to_string(id) + names[id];
  EXPECT_EQ(all, "0boskoop1elstar");
  EXPECT_EQ(names.end_id(), AppleId(2));
  EXPECT_EQ(names.id_of(std::find(names.begin(), names.end(), "elstar")), AppleId(1));
  EXPECT_EQ(names.id_of(names.end()), names.end_id());
}

TEST(Ids, AlgorithmsGoThroughIds) {
  const IdVector<AppleId, int> weights = {150, 90, 120};
  const auto light = [&](AppleId id) { return weights[id] < 130; };
  EXPECT_EQ(std::ranges::count_if(weights.ids(), light), 2);
  EXPECT_FALSE(std::ranges::all_of(weights.ids(), light));
}

TEST(Ids, AVectorHasTheIdsOfItsElementsOnly) {
  const IdVector<AppleId, int> weights(2, 150);
  EXPECT_TRUE(weights.has(AppleId(1)));
  EXPECT_FALSE(weights.has(AppleId(2)));
  EXPECT_FALSE(weights.has(AppleId()));
}

TEST(Ids, AVectorOfBoolsIsIndexedLikeOthers) {
  IdVector<PearId, bool> ripe(2);
  ripe[PearId(1)] = true;
  EXPECT_FALSE(ripe[PearId(0)]);
  EXPECT_TRUE(ripe[PearId(1)]);
}

}  // namespace
}  // namespace ferry
