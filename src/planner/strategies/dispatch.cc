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

}  // namespace

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
