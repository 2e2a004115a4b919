#include "papers/harmony/harmony_packing.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ferry {
namespace {

// Peaks of 10 bytes, 2 of them the input: k layers take 2 + 8 k.
std::vector<HarmonyCost> layers(const std::vector<double>& times) {
  std::vector<HarmonyCost> result;
  for (const double time : times) result.push_back({{time}, 10_B, 2_B});
  return result;
}

const std::vector<HarmonyCost> kSix = layers({1, 1, 1, 1, 1, 3});

HarmonyPacks packs(PackingMethod method, Bytes capacity) {
  return pack_layers(method, kSix, capacity).value_or(HarmonyPacks{});
}

TEST(HarmonyPacking, APackHoldsTheInputOfItsFirstLayerOnly) {
  EXPECT_EQ(pack_memory(kSix, {0, 1}), 10_B);
  EXPECT_EQ(pack_memory(kSix, {1, 4}), 26_B);
}

TEST(HarmonyPacking, ByTimeCutsBeforeTheLayerThatReachesItsShare) {
  EXPECT_EQ(packs(PackingMethod::time, 100_B), (HarmonyPacks{{0, 6}}));
  EXPECT_EQ(packs(PackingMethod::time, 26_B), (HarmonyPacks{{0, 3}, {3, 6}}));
  // Two packs do not fit, nor do three: [2, 5) takes 26 bytes.
  EXPECT_EQ(packs(PackingMethod::time, 25_B), (HarmonyPacks{{0, 1}, {1, 3}, {3, 5}, {5, 6}}));
}

TEST(HarmonyPacking, ByMemoryCutsAtEvenSteps) {
  EXPECT_EQ(packs(PackingMethod::memory, 26_B), (HarmonyPacks{{0, 1}, {1, 3}, {3, 6}}));
}

TEST(HarmonyPacking, GreedyFillsFromTheLastLayerAndStaysBelowTheCapacity) {
  EXPECT_EQ(packs(PackingMethod::greedy, 35_B), (HarmonyPacks{{0, 2}, {2, 6}}));
  EXPECT_EQ(packs(PackingMethod::greedy, 27_B), (HarmonyPacks{{0, 3}, {3, 6}}));
  EXPECT_EQ(packs(PackingMethod::greedy, 26_B), (HarmonyPacks{{0, 2}, {2, 4}, {4, 6}}));
}

TEST(HarmonyPacking, NothingPacksALayerThatDoesNotFit) {
  for (const PackingMethod method :
       {PackingMethod::time, PackingMethod::memory, PackingMethod::greedy}) {
    EXPECT_FALSE(pack_layers(method, kSix, 9_B)) << to_string(method);
  }
}

TEST(HarmonyPacking, CutsThatLeaveAPackEmptyAreRejected) {
  // Both cuts of three packs stand before the last layer, and two packs are too large.
  EXPECT_FALSE(pack_layers(PackingMethod::time, layers({0, 0, 10}), 17_B));
  EXPECT_TRUE(pack_layers(PackingMethod::time, layers({0, 0, 10}), 18_B));
}

TEST(HarmonyPacking, ReuseTakesTheBackwardPacksWithoutTheLast) {
  const HarmonyPacks backward = {{0, 3}, {3, 6}};
  EXPECT_EQ(reuse_packs(backward, kSix, 27_B), (HarmonyPacks{{0, 3}}));
  EXPECT_FALSE(reuse_packs(backward, kSix, 26_B));
}

TEST(HarmonyPacking, PacksHaveToCoverTheLayers) {
  const std::vector<int> counts = {3, 2};
  EXPECT_EQ(packs_of(counts), (HarmonyPacks{{0, 3}, {3, 5}}));
  EXPECT_NO_THROW(check_cover(packs_of(counts), 5, "backward"));
  EXPECT_NO_THROW(check_cover({}, 0, "forward"));
  EXPECT_THROW(check_cover(packs_of(counts), 6, "backward"), UserError);
  EXPECT_THROW(check_cover({{0, 3}, {4, 5}}, 5, "backward"), UserError);
  EXPECT_THROW(check_cover({{0, 0}}, 0, "forward"), UserError);
}

}  // namespace
}  // namespace ferry
