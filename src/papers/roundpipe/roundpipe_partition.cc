#include "papers/roundpipe/roundpipe_partition.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/check.h"
#include "planner/cuts/contiguous.h"

namespace ferry {
namespace {

// Sums over layers [first, end) as differences of prefix sums, so that a candidate and the stage
// that it was taken from are equal to the last bit.
class Sums {
 public:
  explicit Sums(const std::vector<RoundPipeLayer>& layers) : rows_(1) {
    for (const RoundPipeLayer& layer : layers) {
      RoundPipeLayer sum = rows_.back();
      sum.forward += layer.forward;
      sum.backward += layer.backward;
      sum.forward_bytes += layer.forward_bytes;
      sum.backward_bytes += layer.backward_bytes;
      rows_.push_back(sum);
    }
  }

  int layers() const { return static_cast<int>(rows_.size()) - 1; }
  double forward(int first, int end) const { return at(end).forward - at(first).forward; }
  double backward(int first, int end) const { return at(end).backward - at(first).backward; }
  double forward_bytes(int first, int end) const {
    return at(end).forward_bytes - at(first).forward_bytes;
  }
  double backward_bytes(int first, int end) const {
    return at(end).backward_bytes - at(first).backward_bytes;
  }

 private:
  const RoundPipeLayer& at(int layer) const { return rows_[static_cast<std::size_t>(layer)]; }

  std::vector<RoundPipeLayer> rows_;
};

class Packer {
 public:
  Packer(const Sums& sums, double t_max, double memory)
      : sums_(sums), t_max_(t_max), memory_(memory) {}

  std::optional<RoundPipePartition> pack() const {
    const int layers = sums_.layers();
    int fused = layers;
    while (fused > 0 && backward_fits(fused - 1, layers)) --fused;
    if (fused == layers) return std::nullopt;
    RoundPipePartition result;
    result.t_max = t_max_;
    for (int end = fused; end > 0;) {
      int first = end;
      while (first > 0 && forward_fits(first - 1, end)) --first;
      if (first == end) return std::nullopt;
      result.stages.push_back({Direction::forward, first, end, sums_.forward(first, end)});
      end = first;
    }
    std::reverse(result.stages.begin(), result.stages.end());
    result.stages.push_back({Direction::fused, fused, layers, sums_.backward(fused, layers)});
    std::vector<RoundPipeStage> backward;
    for (int first = 0; first < fused;) {
      int end = first;
      while (end < fused && backward_fits(first, end + 1)) ++end;
      if (end == first) return std::nullopt;
      backward.push_back({Direction::backward, first, end, sums_.backward(first, end)});
      first = end;
    }
    result.stages.insert(result.stages.end(), backward.rbegin(), backward.rend());
    return result;
  }

 private:
  bool forward_fits(int first, int end) const {
    return sums_.forward(first, end) <= t_max_ && sums_.forward_bytes(first, end) <= memory_;
  }
  bool backward_fits(int first, int end) const {
    return sums_.backward(first, end) <= t_max_ && sums_.backward_bytes(first, end) <= memory_;
  }

  const Sums& sums_;
  const double t_max_;
  const double memory_;
};

// Every contiguous sum that no single layer exceeds, ascending.
std::vector<double> candidates(const Sums& sums) {
  double least = 0;
  for (int l = 0; l < sums.layers(); ++l) {
    least = std::max({least, sums.forward(l, l + 1), sums.backward(l, l + 1)});
  }
  std::vector<double> times;
  for (int first = 0; first < sums.layers(); ++first) {
    for (int end = first + 1; end <= sums.layers(); ++end) {
      times.push_back(sums.forward(first, end));
      times.push_back(sums.backward(first, end));
    }
  }
  std::erase_if(times, [&](double time) { return time < least; });
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  return times;
}

double cost_of(const RoundPipeProblem& problem, const RoundPipePartition& partition) {
  const auto stages = static_cast<double>(partition.stages.size());
  if (problem.cost == RoundPipeCost::steady) return stages * partition.t_max;
  const double n = problem.devices;
  return (problem.micro_batches * stages + n * (n - 1)) * partition.t_max;
}

}  // namespace

std::vector<RoundPipePartition> roundpipe_partitions(const RoundPipeProblem& problem,
                                                     const std::vector<RoundPipeLayer>& layers,
                                                     int keep) {
  FERRY_CHECK(!layers.empty() && keep > 0, "layers, and room for an answer");
  const Sums sums(layers);
  std::vector<RoundPipePartition> best;  // by cost
  for (const double t_max : candidates(sums)) {
    std::optional<RoundPipePartition> partition = Packer(sums, t_max, problem.memory).pack();
    if (!partition) continue;
    partition->cost = cost_of(problem, *partition);
    if (static_cast<int>(best.size()) == keep && partition->cost >= best.back().cost) continue;
    const auto same = [&](const RoundPipePartition& other) {
      return other.stages == partition->stages;
    };
    if (std::any_of(best.begin(), best.end(), same)) continue;  // of a smaller t_max
    const auto place = std::upper_bound(
        best.begin(), best.end(), *partition,
        [](const RoundPipePartition& a, const RoundPipePartition& b) { return a.cost < b.cost; });
    best.insert(place, std::move(*partition));
    if (static_cast<int>(best.size()) > keep) best.pop_back();
  }
  return best;
}

std::optional<RoundPipePartition> evened(const RoundPipePartition& partition,
                                         const std::vector<RoundPipeLayer>& layers, double memory) {
  const Sums sums(layers);
  RoundPipePartition result;
  const auto fused =
      std::find_if(partition.stages.begin(), partition.stages.end(),
                   [](const auto& stage) { return stage.direction == Direction::fused; });
  const auto forward = static_cast<int>(fused - partition.stages.begin());
  const int backward = static_cast<int>(partition.stages.size()) - forward - 1;
  const auto cuts = [&](Direction direction, int stages) {
    std::vector<double> times;
    for (int l = 0; l < fused->first; ++l) {
      times.push_back(direction == Direction::forward ? sums.forward(l, l + 1)
                                                      : sums.backward(l, l + 1));
    }
    std::vector<RoundPipeStage> cut;
    int first = 0;
    for (const int end : min_max_cuts(times, stages)) {
      cut.push_back(
          {direction, first, end,
           direction == Direction::forward ? sums.forward(first, end) : sums.backward(first, end)});
      first = end;
    }
    return cut;
  };
  if (forward > 0) result.stages = cuts(Direction::forward, forward);
  result.stages.push_back(*fused);
  if (backward > 0) {
    const std::vector<RoundPipeStage> cut = cuts(Direction::backward, backward);
    result.stages.insert(result.stages.end(), cut.rbegin(), cut.rend());
  }
  for (const RoundPipeStage& stage : result.stages) {
    const double bytes = stage.direction == Direction::forward
                             ? sums.forward_bytes(stage.first, stage.end)
                             : sums.backward_bytes(stage.first, stage.end);
    if (bytes > memory) return std::nullopt;
    result.t_max = std::max(result.t_max, stage.time);
  }
  return result;
}

}  // namespace ferry
