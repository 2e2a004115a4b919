#include "planner/cuts/every_partition.h"

#include <cstddef>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace ferry {
namespace {

/// The cuts of a chain in lexicographic order.
class Cuts {
 public:
  Cuts(int blocks, int stages) : blocks_(blocks), ends_(stages) {
    std::iota(ends_.begin(), ends_.end(), 1);
    ends_.back() = blocks;
  }

  const std::vector<int>& ends() const { return ends_; }

  /// False when these were the last ones. The last cut that can move does; those behind it follow.
  bool advance() {
    for (std::size_t cut = ends_.size() - 1; cut-- > 0;) {
      const auto behind = static_cast<int>(ends_.size() - 1 - cut);
      if (ends_[cut] == blocks_ - behind) continue;
      std::iota(ends_.begin() + static_cast<std::ptrdiff_t>(cut), ends_.end() - 1, ends_[cut] + 1);
      return true;
    }
    return false;
  }

 private:
  const int blocks_;
  std::vector<int> ends_;
};

/// Every stage that there could be.
class StageTable {
 public:
  explicit StageTable(const std::vector<BlockCosts>& blocks) : size_(blocks.size()) {
    stages_.resize(size_ * size_);
    for (std::size_t first = 0; first < size_; ++first) {
      StageCosts stage = blocks[first];
      for (std::size_t last = first; last < size_; ++last) {
        if (last > first) stage = stages_of({stage, blocks[last]}, {2}).front();
        stages_[first * size_ + last] = stage;
      }
    }
  }

  const StageCosts& stage(int first, int end) const { return stages_[first * size_ + end - 1]; }

 private:
  const std::size_t size_;
  std::vector<StageCosts> stages_;  // [first][end - 1]
};

}  // namespace

double partition_count(int blocks, int stages) {
  double count = 1;
  for (int i = 1; i < stages; ++i) count = count * (blocks - i) / i;
  return count;
}

std::optional<Partition> fastest_partition(const EvaluatorProblem& problem,
                                           const std::vector<BlockCosts>& blocks, int stages) {
  const int count = static_cast<int>(blocks.size());
  FERRY_CHECK(1 <= stages && stages <= count, "a block for every stage");
  const StageTable table(blocks);
  Partition fastest{{}, std::numeric_limits<double>::infinity()};
  std::vector<StageCosts> costs(stages);
  Cuts cuts(count, stages);
  do {
    int first = 0;
    for (std::size_t j = 0; j < costs.size(); ++j) {
      costs[j] = table.stage(first, cuts.ends()[j]);
      first = cuts.ends()[j];
    }
    const double step = step_of_stages(problem, costs);
    if (step < fastest.step) fastest = {cuts.ends(), step};
  } while (cuts.advance());
  if (fastest.ends.empty()) return std::nullopt;
  return fastest;
}

}  // namespace ferry
