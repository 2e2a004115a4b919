#include "planner/strategies/dispatch.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"

namespace ferry {
namespace {

int first_of(const std::vector<int>& ends, std::size_t stage) {
  return stage == 0 ? 0 : ends[stage - 1];
}

// One pass over the stages for one share of the micro-batches, in order of execution.
struct DirectedStage {
  Direction direction;
  int first;
  int end;
};

std::vector<DirectedStage> stages_in_order(const Packs& packs, bool train) {
  std::vector<DirectedStage> stages;
  for (std::size_t j = 0; j < packs.forward.size(); ++j) {
    stages.push_back({Direction::forward, first_of(packs.forward, j), packs.forward[j]});
  }
  const std::size_t last = packs.backward.size() - 1;
  stages.push_back({train ? Direction::fused : Direction::forward, first_of(packs.backward, last),
                    packs.backward[last]});
  for (std::size_t j = last; train && j-- > 0;) {
    stages.push_back({Direction::backward, first_of(packs.backward, j), packs.backward[j]});
  }
  return stages;
}

// Greedy parts of at most `most` each; more than `parts` of them when `most` is too small.
std::vector<int> greedy_cuts(const std::vector<double>& costs, double most) {
  std::vector<int> ends;
  double sum = 0;
  for (std::size_t b = 0; b < costs.size(); ++b) {
    if (b > 0 && sum + costs[b] > most) {
      ends.push_back(static_cast<int>(b));
      sum = 0;
    }
    sum += costs[b];
  }
  ends.push_back(static_cast<int>(costs.size()));
  return ends;
}

}  // namespace

std::vector<int> even_cuts(const std::vector<double>& costs, int parts) {
  FERRY_CHECK(!costs.empty() && parts >= 1, "something to cut, into at least one part");
  double least = 0;
  double most = 0;
  for (const double cost : costs) {
    least = std::max(least, cost);
    most += cost;
  }
  constexpr int kHalvings = 60;
  std::vector<int> best = greedy_cuts(costs, most);
  for (int i = 0; i < kHalvings && least < most; ++i) {
    const double middle = least + (most - least) / 2;
    std::vector<int> tried = greedy_cuts(costs, middle);
    if (static_cast<int>(tried.size()) <= parts) {
      best = std::move(tried);
      most = middle;
    } else {
      least = middle;
    }
  }
  return best;
}

std::vector<StageVisit> dispatch(const Packs& packs, int devices, int micro_batches, int round,
                                 bool train) {
  FERRY_CHECK(round >= 1, "a round has micro-batches");
  std::vector<StageVisit> visits;
  int slot = 0;
  for (int first = 0; first < micro_batches; first += round) {
    for (const DirectedStage& stage : stages_in_order(packs, train)) {
      visits.push_back({stage.direction, slot++ % devices, stage.first, stage.end, first,
                        std::min(first + round, micro_batches)});
    }
  }
  return visits;
}

std::vector<StageVisit> replicate(const Packs& packs, int devices, int micro_batches, bool train) {
  std::vector<StageVisit> visits;
  for (const DirectedStage& stage : stages_in_order(packs, train)) {
    for (int d = 0; d < devices; ++d) {
      const int first = d * micro_batches / devices;
      const int end = (d + 1) * micro_batches / devices;
      if (first < end) visits.push_back({stage.direction, d, stage.first, stage.end, first, end});
    }
  }
  return visits;
}

std::vector<StageVisit> horizontal(const std::vector<int>& ends, int devices, int micro_batches,
                                   bool train) {
  std::vector<StageVisit> visits;
  for (int group = 0; group < micro_batches; group += devices) {
    const auto add = [&](Direction direction, std::size_t j) {
      for (int m = group; m < std::min(group + devices, micro_batches); ++m) {
        visits.push_back({direction, m - group, first_of(ends, j), ends[j], m, m + 1});
      }
    };
    for (std::size_t j = 0; j < ends.size(); ++j) add(Direction::forward, j);
    for (std::size_t j = ends.size(); train && j-- > 0;) add(Direction::backward, j);
  }
  return visits;
}

}  // namespace ferry
