#include "planner/cuts/mapping.h"

#include <gtest/gtest.h>

#include <numeric>

namespace ferry {
namespace {

using Roots = std::vector<std::optional<int>>;

struct Row {
  Roots roots;
  int stages;
  double sequential;
  double best;
};

// Sums of contention degrees (Mobius, ASPLOS 2023): of the sequential mapping, and the least.
TEST(Mapping, DegreesOfTheTableAreReproduced) {
  const std::vector<Row> rows = {
      {{0, 0, 0, 0}, 8, 54.9714, 54.9714},  {{0, 0, 1, 1}, 8, 12.1333, 8.6667},
      {{0, 0, 1, 1}, 12, 22.2825, 17.4000}, {{0, 0, 1, 1}, 16, 33.7697, 27.4857},
      {{0, 1, 1, 1}, 8, 22.7000, 20.5286},  {{0, 0, 0, 0, 1, 1, 1, 1}, 8, 34.6667, 17.3333},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(std::to_string(row.stages) + " stages, " + std::to_string(row.roots.size()) +
                 " devices");
    std::vector<int> sequential(row.roots.size());
    std::iota(sequential.begin(), sequential.end(), 0);
    EXPECT_NEAR(contention_degree(row.roots, sequential, row.stages), row.sequential, 5e-5);
    const std::vector<int> best = cross_mapping(row.roots, row.stages);
    EXPECT_NEAR(contention_degree(row.roots, best, row.stages), row.best, 5e-5);
  }
}

TEST(Mapping, NeighboursAlternateBetweenRoots) {
  const Roots roots = {0, 0, 1, 1};
  const std::vector<int> mapping = cross_mapping(roots, 8);
  for (std::size_t slot = 0; slot + 1 < mapping.size(); ++slot) {
    EXPECT_NE(roots[mapping[slot]], roots[mapping[slot + 1]]);
  }
}

TEST(Mapping, DevicesWithLinksOfTheirOwnKeepTheirOrder) {
  const Roots roots(4);
  EXPECT_EQ(cross_mapping(roots, 8), (std::vector<int>{0, 1, 2, 3}));
}

TEST(Mapping, ManyDevicesAreMappedBySearch) {
  Roots roots;
  for (int d = 0; d < 12; ++d) roots.emplace_back(d / 6);
  std::vector<int> sequential(roots.size());
  std::iota(sequential.begin(), sequential.end(), 0);
  EXPECT_LT(contention_degree(roots, cross_mapping(roots, 24), 24),
            contention_degree(roots, sequential, 24));
}

}  // namespace
}  // namespace ferry
