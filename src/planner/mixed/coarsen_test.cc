#include "planner/mixed/coarsen.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "planner/cuts/contiguous.h"
#include "planner/mixed/sample_graphs.h"
#include "planner/mixed/splitmix.h"

namespace ferry {
namespace {

double heaviest(const BlockGraph& graph, const Items& groups) {
  double most = 0;
  for (const std::vector<BlockId>& group : groups) {
    double weight = 0;
    for (const BlockId block : group) weight += least_seconds(graph, block);
    most = std::max(most, weight);
  }
  return most;
}

TEST(Coarsen, QuotasFollowWeightsByLargestRemainder) {
  EXPECT_EQ(quotas({24, 8.4}, {24, 24}, 16), (std::vector<int>{12, 4}));
  EXPECT_EQ(quotas({5, 3, 2}, {9, 9, 9}, 4), (std::vector<int>{2, 1, 1}));
  EXPECT_EQ(quotas({1, 1, 1}, {9, 9, 9}, 4), (std::vector<int>{2, 1, 1}));  // ties: the earlier
}

// FTPipe divides by a quota of 0 here.
TEST(Coarsen, EveryClassGetsASeat) {
  EXPECT_EQ(quotas({1000, 1, 1}, {50, 1, 1}, 8), (std::vector<int>{6, 1, 1}));
  EXPECT_EQ(quotas({0, 0}, {2, 2}, 2), (std::vector<int>{1, 1}));
}

TEST(Coarsen, NoClassGetsMoreSeatsThanMembers) {
  EXPECT_EQ(quotas({100, 1}, {2, 10}, 8), (std::vector<int>{2, 6}));
  EXPECT_EQ(quotas({1, 1}, {1, 1}, 8), (std::vector<int>{1, 1}));
}

TEST(Coarsen, ClassesAreCutWithTheLeastHeaviestGroup) {
  const BlockGraph graph = weighted_blocks({4, 1, 1, 1, 1, 4, 2, 2}, 1);
  const Items groups = coarsen(graph, 4);
  EXPECT_EQ(groups, (Items{{0}, {1, 2, 3, 4}, {5}, {6, 7}}));
}

TEST(Coarsen, ProtectedRunsStayWhole) {
  BlockGraph graph = weighted_blocks({1, 1, 1, 1, 1, 1}, 1);
  for (const BlockId block : {BlockId(1), BlockId(2), BlockId(3)}) graph.blocks[block].run = 7;
  EXPECT_EQ(coarsen(graph, 6), (Items{{0}, {1, 2, 3}, {4}, {5}}));
}

TEST(Coarsen, EmbeddingAndHeadStandAloneOnlyWhenThatIsLighter) {
  BlockGraph graph = weighted_blocks({1, 4, 4, 4, 4, 9}, 1);
  graph.blocks[0].role = BlockRole::opening;
  graph.blocks[0].kind = "embedding";
  graph.blocks[5].role = BlockRole::closing;
  graph.blocks[5].kind = "head";
  EXPECT_EQ(coarsen(graph, 3), (Items{{0, 1, 2}, {3, 4}, {5}}));
  graph.blocks[5].seconds = {1};
  EXPECT_EQ(coarsen(graph, 4), (Items{{0, 1}, {2}, {3}, {4, 5}}));
}

TEST(Coarsen, MoreClassesThanGroupsAreMerged) {
  BlockGraph graph = weighted_blocks({5, 1, 1, 5}, 1);
  graph.blocks[1].kind = "second";
  graph.blocks[2].kind = "third";
  graph.blocks[3].kind = "fourth";
  EXPECT_EQ(coarsen(graph, 3), (Items{{0}, {1, 2}, {3}}));
  EXPECT_EQ(coarsen(graph, 1), (Items{{0, 1, 2, 3}}));
}

TEST(Coarsen, RandomGraphsAreCoveredInOrderWithinTheLimit) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    const RandomJob job = random_job(seed, 24);
    for (const int limit : {1, 2, 5, 12}) {
      const Items groups = coarsen(job.graph, limit);
      EXPECT_LE(std::ssize(groups), limit);
      BlockId next(0);
      for (const std::vector<BlockId>& group : groups) {
        EXPECT_FALSE(group.empty());
        for (const BlockId block : group) {
          EXPECT_EQ(block, next) << "seed " << seed;
          ++next;
        }
      }
      EXPECT_EQ(next, job.graph.blocks.end_id());
      for (const std::vector<BlockId>& run : protected_runs(job.graph)) {
        EXPECT_TRUE(std::ranges::any_of(groups,
                                        [&](const std::vector<BlockId>& group) {
                                          return group.front() <= run.front() &&
                                                 run.back() <= group.back();
                                        }))
            << "seed " << seed;
      }
      EXPECT_EQ(groups, coarsen(job.graph, limit));
    }
  }
}

// More groups are never heavier in one class, since its cut is optimal.
TEST(Coarsen, MoreGroupsOfOneClassAreNeverHeavier) {
  SplitMix random(5);
  for (int instance = 0; instance < 50; ++instance) {
    std::vector<double> weights;
    for (int b = 0; b < 20; ++b) weights.push_back(1 + random.below(30));
    const BlockGraph graph = weighted_blocks(weights, 1);
    double before = heaviest(graph, coarsen(graph, 1));
    for (int limit = 2; limit <= 20; ++limit) {
      const double now = heaviest(graph, coarsen(graph, limit));
      EXPECT_LE(now, before);
      before = now;
    }
  }
}

TEST(Contiguous, LeastHeaviestPartEqualsBruteForce) {
  SplitMix random(11);
  for (int instance = 0; instance < 100; ++instance) {
    const int size = 1 + random.below(9);
    const int parts = 1 + random.below(size);
    std::vector<double> weights;
    for (int i = 0; i < size; ++i) weights.push_back(random.below(20));
    double least = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (unsigned cuts = 0; cuts < 1U << static_cast<unsigned>(size - 1); ++cuts) {
      if (std::popcount(cuts) != parts - 1) continue;
      Cuts ends;
      for (int i = 1; i < size; ++i) {
        if (((cuts >> static_cast<unsigned>(i - 1)) & 1U) != 0) ends.push_back(i);
      }
      ends.push_back(size);
      least = std::min(least, heaviest_part(weights, ends));
    }
    EXPECT_EQ(heaviest_part(weights, min_max_cuts(weights, parts)), least);
  }
}

TEST(Contiguous, PartsAreEvenAmongThoseWithTheLeastMaximum) {
  EXPECT_EQ(min_max_cuts({1, 1, 1, 1, 1, 1, 1, 1, 1}, 4), (Cuts{2, 4, 6, 9}));
}

TEST(Contiguous, LimitsOfThePartsAreKept) {
  EXPECT_EQ(min_max_cuts_within({{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 4}}), (Cuts{1, 4}));
  EXPECT_FALSE(min_max_cuts_within({{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 2}}).has_value());
}

}  // namespace
}  // namespace ferry
