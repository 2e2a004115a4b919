#include "planner/cuts/contiguous.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace ferry {
namespace {

double longest_stage(const std::vector<double>& times, const std::vector<int>& ends) {
  double longest = 0;
  int first = 0;
  for (const int end : ends) {
    double sum = 0;
    for (; first < end; ++first) sum += times[first];
    longest = std::max(longest, sum);
  }
  return longest;
}

TEST(MinMaxCuts, EqualBlocksMakeStagesThatDifferByOne) {
  EXPECT_EQ(min_max_cuts(std::vector<double>(10, 1.0), 4), (std::vector<int>{2, 4, 7, 10}));
  EXPECT_EQ(min_max_cuts(std::vector<double>(6, 1.0), 3), (std::vector<int>{2, 4, 6}));
}

TEST(MinMaxCuts, NoCutHasAShorterLongestStage) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 100; ++round) {
    std::vector<double> times(1 + random() % 8);
    for (double& time : times) time = static_cast<double>(1 + random() % 9);
    const int count = static_cast<int>(times.size());
    const int stages = 1 + static_cast<int>(random() % times.size());
    const std::vector<int> ends = min_max_cuts(times, stages);
    ASSERT_EQ(static_cast<int>(ends.size()), stages);
    double least = 1e9;
    for (unsigned cuts = 0; cuts < 1U << (count - 1); ++cuts) {
      std::vector<int> other;
      for (int b = 1; b < count; ++b) {
        if (cuts >> (b - 1) & 1U) other.push_back(b);
      }
      other.push_back(count);
      if (static_cast<int>(other.size()) == stages) {
        least = std::min(least, longest_stage(times, other));
      }
    }
    EXPECT_EQ(longest_stage(times, ends), least);
  }
}

double costliest(const std::vector<int>& ends, const PartCost& cost) {
  double most = 0;
  int first = 0;
  for (std::size_t s = 0; s < ends.size(); ++s) {
    most = std::max(most, cost(static_cast<int>(s), first, ends[s]));
    first = ends[s];
  }
  return most;
}

/// The least over all cuts, one by one.
double brute_force(int blocks, int stages, const PartCost& cost) {
  double least = kForbidden;
  for (unsigned cuts = 0; cuts < (1U << (blocks - 1)); ++cuts) {
    std::vector<int> ends;
    for (int b = 1; b < blocks; ++b) {
      if ((cuts >> (b - 1) & 1U) != 0) ends.push_back(b);
    }
    ends.push_back(blocks);
    if (static_cast<int>(ends.size()) == stages) least = std::min(least, costliest(ends, cost));
  }
  return least;
}

TEST(MinMaxCuts, NoCutHasACheaperCostliestPart) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    const int blocks = 1 + static_cast<int>(random() % 9);
    const int stages = 1 + static_cast<int>(random() % static_cast<unsigned>(blocks));
    std::vector<double> work, weight;
    for (int b = 0; b < blocks; ++b) work.push_back(static_cast<double>(1 + random() % 20));
    for (int s = 0; s < stages; ++s) weight.push_back(static_cast<double>(1 + random() % 3));
    const double limit = static_cast<double>(20 + random() % 60);
    const PartCost cost = [&](int stage, int first, int end) {
      double sum = 0;
      for (int b = first; b < end; ++b) sum += work[b];
      sum *= weight[stage];
      return sum > limit ? kForbidden : sum;
    };
    const double least = brute_force(blocks, stages, cost);
    for (const CutTies ties : {CutTies::earliest, CutTies::evenest, CutTies::evenest_so_far}) {
      const std::optional<Cuts> ends = min_max_cuts(blocks, stages, cost, ties);
      ASSERT_EQ(!ends, least == kForbidden);
      if (!ends) continue;
      EXPECT_EQ(costliest(*ends, cost), least);
      EXPECT_EQ(ends->back(), blocks);
    }
  }
}

// Four equal blocks and a light one: beside the pair that sets the pace the rest is even.
TEST(MinMaxCuts, TiesGoWhereTheyAreAskedTo) {
  const std::vector<double> work = {4, 4, 2, 2, 2, 2};
  const PartCost sum_of = [&](int, int first, int end) {
    double sum = 0;
    for (int b = first; b < end; ++b) sum += work[b];
    return sum;
  };
  EXPECT_EQ(min_max_cuts(6, 3, sum_of, CutTies::evenest_so_far), (Cuts{1, 3, 6}));
  EXPECT_EQ(min_max_cuts(6, 3, sum_of, CutTies::evenest), (Cuts{1, 3, 6}));
  EXPECT_EQ(min_max_cuts(6, 3, sum_of, CutTies::earliest), (Cuts{1, 3, 6}));
}

// The least over all cuts into at most so many parts.
TEST(PackedCuts, NoFewPartsHaveALighterHeaviest) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 100; ++round) {
    std::vector<double> weights(1 + random() % 8);
    for (double& weight : weights) weight = static_cast<double>(1 + random() % 9);
    const int size = static_cast<int>(weights.size());
    const int parts = 1 + static_cast<int>(random() % 10);
    double least = heaviest_part(weights, {size});
    for (int fewer = 1; fewer <= std::min(parts, size); ++fewer) {
      least = std::min(least, heaviest_part(weights, min_max_cuts(weights, fewer)));
    }
    for (const PackFill fill : {PackFill::to_heaviest, PackFill::to_mean}) {
      const Cuts packed = packed_cuts(weights, parts, fill);
      EXPECT_LE(std::ssize(packed), parts);
      EXPECT_EQ(heaviest_part(weights, packed), least);
    }
  }
}

TEST(PackedCuts, PartsAreFilledFromTheFront) {
  EXPECT_EQ(packed_cuts({1, 1, 1, 1, 1}, 3, PackFill::to_mean), (Cuts{2, 4, 5}));
}

TEST(PackedCuts, BesideAHeavyElementPartsAreFullOrEven) {
  const std::vector<double> weights = {4, 1, 1, 1, 1};
  EXPECT_EQ(packed_cuts(weights, 4, PackFill::to_heaviest), (Cuts{1, 5}));
  EXPECT_EQ(packed_cuts(weights, 4, PackFill::to_mean), (Cuts{1, 3, 5}));
}

TEST(PackedCuts, LimitsMayAskForMoreParts) {
  const PartLimit two_each{{1, 1, 1, 1, 1, 1}, 2};
  EXPECT_EQ(packed_cuts({1, 1, 1, 1, 1, 1}, 2, PackFill::to_mean, {two_each}), (Cuts{2, 4, 6}));
}

}  // namespace
}  // namespace ferry
