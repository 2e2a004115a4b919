#include "planner/cuts/partition.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <set>

#include "base/check.h"
#include "base/side_by_side.h"
#include "planner/cuts/contiguous.h"

namespace ferry {
namespace {

using Ends = std::vector<int>;

bool comes_first(const Partition& a, const Partition& b) {
  if (a.step != b.step) return a.step < b.step;
  if (a.ends.size() != b.ends.size()) return a.ends.size() < b.ends.size();
  return a.ends < b.ends;
}

// The few best partitions seen so far, sorted and distinct.
class BestPartitions {
 public:
  explicit BestPartitions(int places) : places_(places) {}

  void offer(Partition partition) {
    const auto at = std::lower_bound(best_.begin(), best_.end(), partition, comes_first);
    if (at != best_.end() && at->ends == partition.ends) return;
    best_.insert(at, std::move(partition));
    if (best_.size() > places_) best_.pop_back();
  }

  /// True when a partition with this step or a larger one would not be kept.
  bool refuses(double step) const {
    return best_.size() == places_ && step > best_.back().step * (1 + 1e-12);
  }

  std::vector<Partition> take() { return std::move(best_); }

 private:
  std::size_t places_;
  std::vector<Partition> best_;
};

StageCosts stage_of(const std::vector<BlockCosts>& blocks, std::size_t first, std::size_t end) {
  StageCosts stage = blocks[first];
  for (std::size_t b = first + 1; b < end; ++b) {
    const BlockCosts& block = blocks[b];
    stage.forward_time += block.forward_time;
    stage.backward_time += block.backward_time;
    stage.forward_memory += block.forward_memory;
    stage.backward_memory += block.backward_memory;
    stage.forward_upload += block.forward_upload;
    stage.backward_upload += block.backward_upload;
    stage.gradient_download += block.gradient_download;
    stage.update_time += block.update_time;
    stage.activation = block.activation;
  }
  return stage;
}

// Branch and bound over the cuts, front to back, with an explicit stack. A prefix of stages fixes
// its own forward times, since no forward constraint looks ahead.
class CutSearch {
 public:
  CutSearch(const EvaluatorProblem& problem, const std::vector<BlockCosts>& blocks, int keep)
      : problem_(problem), blocks_(blocks), best_(keep) {
    forward_left_.assign(blocks.size() + 1, 0.0);
    for (std::size_t b = blocks.size(); b-- > 0;) {
      forward_left_[b] = forward_left_[b + 1] + blocks[b].forward_time;
      backward_total_ += blocks[b].backward_time;
    }
  }

  std::vector<Partition> run() {
    std::vector<Ends> open{{}};
    while (!open.empty()) {
      const Ends prefix = std::move(open.back());
      open.pop_back();
      visit(prefix, open);
    }
    return best_.take();
  }

 private:
  void visit(const Ends& prefix, std::vector<Ends>& open) {
    const std::size_t covered = prefix.empty() ? 0 : prefix.back();
    if (covered > 0) {
      // Evaluated as if the chain ended here: exact when it does, and otherwise it gives the
      // prefix's forward times.
      const std::vector<StageCosts> stages = stages_of(blocks_, prefix);
      const StageSchedule schedule = evaluate_stages(problem_, stages);
      if (!schedule.feasible) return;
      if (covered == blocks_.size()) {
        best_.offer({prefix, schedule.step});
        return;
      }
      if (best_.refuses(bound(schedule.forward_end, stages, covered))) return;
    }
    for (std::size_t end = covered + 1; end <= blocks_.size(); ++end) {
      Ends longer = prefix;
      longer.push_back(static_cast<int>(end));
      open.push_back(std::move(longer));
    }
  }

  // The last micro-batch leaves the prefix at forward_end and still needs the other blocks'
  // forward. Backward then takes one micro-batch through all blocks, and M - 1 more through any
  // stage, the prefix's slowest among them.
  double bound(double forward_end, const std::vector<StageCosts>& prefix,
               std::size_t covered) const {
    double slowest = 0;
    for (const StageCosts& stage : prefix) slowest = std::max(slowest, stage.backward_time);
    return forward_end + forward_left_[covered] + backward_total_ +
           (problem_.micro_batches - 1) * slowest;
  }

  const EvaluatorProblem& problem_;
  const std::vector<BlockCosts>& blocks_;
  std::vector<double> forward_left_;
  double backward_total_ = 0;
  BestPartitions best_;
};

// Every partition that differs by one cut: moved by one block, removed, or added.
std::vector<Ends> neighbours(const Ends& ends) {
  std::vector<Ends> result;
  for (std::size_t i = 0; i + 1 < ends.size(); ++i) {
    const int before = i == 0 ? 0 : ends[i - 1];
    for (const int shift : {-1, 1}) {
      const int cut = ends[i] + shift;
      if (cut <= before || cut >= ends[i + 1]) continue;
      Ends moved = ends;
      moved[i] = cut;
      result.push_back(std::move(moved));
    }
    Ends removed = ends;
    removed.erase(removed.begin() + static_cast<std::ptrdiff_t>(i));
    result.push_back(std::move(removed));
  }
  int first = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends[i] - first > 1) {
      Ends added = ends;
      added.insert(added.begin() + static_cast<std::ptrdiff_t>(i), (first + ends[i]) / 2);
      result.push_back(std::move(added));
    }
    first = ends[i];
  }
  return result;
}

// Steps of the climb from one start; a bound on the time of planning, reached by none of the tests.
constexpr int kClimbSteps = 24;

constexpr int kStageCountsTried = 24;  // evenly spread, besides the multiples of the devices

// Stages rated by a Climber, and by the climbs of all stage counts: a fifth of a second's work
// each, on every landing of a search through memory. Of hundreds of layers one round of one climb
// rates a million. With five times as many a step of 96 to 400 layers was no shorter.
constexpr std::int64_t kMostRated = 10'000'000;

class Climber {
 public:
  Climber(const EvaluatorProblem& problem, const std::vector<BlockCosts>& blocks, int keep)
      : problem_(problem), blocks_(blocks), best_(keep) {}

  void climb(const Ends& ends) {
    if (!seen_.insert(ends).second) return;
    Partition here{ends, 0};
    if (!rate(here)) return;
    for (int step = 0; step < kClimbSteps; ++step) {
      Partition next = here;
      for (Ends& candidate : neighbours(here.ends)) {
        if (left_ <= 0) return;
        Partition other{std::move(candidate), 0};
        if (rate(other) && comes_first(other, next)) next = std::move(other);
      }
      if (next.ends == here.ends) return;
      here = std::move(next);
    }
  }

  void offer(const Ends& ends) {
    Partition partition{ends, 0};
    rate(partition);
  }

  /// The best, with their steps by the evaluator to the last bit.
  std::vector<Partition> take() {
    std::vector<Partition> best = best_.take();
    for (Partition& partition : best) {
      partition.step = evaluate_stages(problem_, stages_of(blocks_, partition.ends)).step;
    }
    std::sort(best.begin(), best.end(), comes_first);
    return best;
  }

 private:
  bool rate(Partition& partition) {
    left_ -= std::ssize(partition.ends);
    partition.step = step_of_stages(problem_, stages_of(blocks_, partition.ends));
    if (partition.step == std::numeric_limits<double>::infinity()) return false;
    if (!best_.refuses(partition.step)) best_.offer(partition);
    return true;
  }

  const EvaluatorProblem& problem_;
  const std::vector<BlockCosts>& blocks_;
  BestPartitions best_;
  std::set<Ends> seen_;
  std::int64_t left_ = kMostRated;
};

// Descent over the partitions into one stage count: shift one cut, or shift a range of cuts
// together, which makes one stage longer and another shorter by a block.
class StageCountClimber {
 public:
  /// `ratings`: how many stages may be rated.
  StageCountClimber(const EvaluatorProblem& problem, const std::vector<BlockCosts>& blocks,
                    std::int64_t ratings)
      : problem_(problem), blocks_(blocks), left_(ratings) {}

  std::optional<Partition> climb(int stages, int kicks) {
    Ends best = even(stages);
    if (best.empty()) return std::nullopt;
    double step = rate(best);
    descend(best, step);
    for (int kick = 0; kick < kicks; ++kick) {
      Ends other = kicked(best);
      double there = rate(other);
      if (there == std::numeric_limits<double>::infinity()) continue;
      descend(other, there);
      if (there >= step * (1 - 1e-9)) continue;
      best = std::move(other);
      step = there;
    }
    return Partition{best, evaluate_stages(problem_, stages_of(blocks_, best)).step};
  }

  /// Below 0 where the last partition that was rated had more stages than were left.
  std::int64_t ratings_left() const { return left_; }

 private:
  static constexpr int kClimbRounds = 40;  // of O(stages^2) neighbours each
  static constexpr int kShiftsPerKick =
      4;  // enough to leave a local optimum, few enough to stay near

  void descend(Ends& ends, double& step) {
    for (int round = 0; round < kClimbRounds; ++round) {
      if (!improve(ends, step)) return;
    }
  }

  // A few cuts shifted by a block each, drawn from a generator of fixed seed.
  Ends kicked(const Ends& ends) {
    Ends other = ends;
    for (int shift = 0; shift < kShiftsPerKick && other.size() > 1; ++shift) {
      const std::size_t i = random_() % (other.size() - 1);
      const int cut = other[i] + (random_() % 2 == 0 ? 1 : -1);
      if (cut > (i == 0 ? 0 : other[i - 1]) && cut < other[i + 1]) other[i] = cut;
    }
    return other;
  }

  double rate(const Ends& ends) {
    left_ -= std::ssize(ends);
    return step_of_stages(problem_, stages_of(blocks_, ends));
  }

  // The most even partition into so few stages, with its longest stages halved until they are
  // enough.
  Ends even(int stages) {
    Ends ends = balanced_partition(problem_, blocks_, stages);
    if (rate(ends) == std::numeric_limits<double>::infinity()) return {};
    while (static_cast<int>(ends.size()) < stages) {
      std::size_t longest = 0;
      int most = 0;
      for (std::size_t j = 0; j < ends.size(); ++j) {
        const int size = ends[j] - (j == 0 ? 0 : ends[j - 1]);
        if (size > most) {
          most = size;
          longest = j;
        }
      }
      if (most < 2) return {};
      ends.insert(ends.begin() + static_cast<std::ptrdiff_t>(longest), ends[longest] - most / 2);
    }
    return static_cast<int>(ends.size()) == stages ? ends : Ends{};
  }

  // Takes the first better neighbour of each range of cuts; false when there is none.
  bool improve(Ends& ends, double& step) {
    bool improved = false;
    for (std::size_t from = 0; from + 1 < ends.size(); ++from) {
      for (std::size_t to = from; to + 1 < ends.size(); ++to) {
        if (left_ <= 0) return false;
        for (const int shift : {-1, 1}) {
          Ends other = ends;
          for (std::size_t i = from; i <= to; ++i) other[i] += shift;
          if (other[from] <= (from == 0 ? 0 : other[from - 1]) || other[to] >= other[to + 1])
            continue;
          const double there = rate(other);
          if (there >= step * (1 - 1e-9)) continue;
          ends = std::move(other);
          step = there;
          improved = true;
        }
      }
    }
    return improved;
  }

  const EvaluatorProblem& problem_;
  const std::vector<BlockCosts>& blocks_;
  std::mt19937_64 random_;
  std::int64_t left_;
};

// Where climbs in evenly spread stage counts end. Each may use its share of what those before it
// left over.
std::vector<Ends> climb_stage_counts(const EvaluatorProblem& problem,
                                     const std::vector<BlockCosts>& blocks) {
  std::vector<Ends> found;
  const int count = static_cast<int>(blocks.size());
  const int stride = std::max(1, count / kStageCountsTried);
  std::int64_t left = kMostRated;
  for (int stages = 1; stages < count; stages += stride) {
    const int climbs = (count - stages + stride - 1) / stride;
    const std::int64_t share = left / climbs;
    StageCountClimber one(problem, blocks, share);
    if (auto best = one.climb(stages, 0)) found.push_back(std::move(best->ends));
    left -= share - one.ratings_left();
  }
  return found;
}

PartitionResult with_gap(PartitionResult result) {
  if (!result.best.empty() && !result.exact && result.best.front().step > 0) {
    const double step = result.best.front().step;
    result.gap = std::max(0.0, step - result.lower_bound) / step;
  }
  return result;
}

}  // namespace

std::vector<StageCosts> stages_of(const std::vector<BlockCosts>& blocks,
                                  const std::vector<int>& ends) {
  std::vector<StageCosts> stages;
  stages.reserve(ends.size());
  int first = 0;
  for (const int end : ends) {
    stages.push_back(stage_of(blocks, first, end));
    first = end;
  }
  return stages;
}

std::vector<int> balanced_partition(const EvaluatorProblem& problem,
                                    const std::vector<BlockCosts>& blocks, int stages) {
  std::vector<double> times;
  PartLimit forward{{}, problem.memory};
  PartLimit backward{{}, problem.memory};
  for (const BlockCosts& block : blocks) {
    times.push_back(block.forward_time + block.backward_time);
    forward.weights.push_back(block.forward_memory);
    backward.weights.push_back(block.backward_memory);
  }
  return packed_cuts(times, stages, PackFill::to_mean, {forward, backward});
}

std::optional<Partition> climb_stage_count(const EvaluatorProblem& problem,
                                           const std::vector<BlockCosts>& blocks, int stages,
                                           int kicks) {
  return StageCountClimber(problem, blocks, kMostRated).climb(stages, kicks);
}

PartitionResult branch_and_bound(const EvaluatorProblem& problem,
                                 const std::vector<BlockCosts>& blocks, int keep) {
  PartitionResult result;
  result.best = CutSearch(problem, blocks, keep).run();
  result.exact = true;
  result.lower_bound = result.best.empty() ? 0 : result.best.front().step;
  return result;
}

PartitionResult local_search(const EvaluatorProblem& problem, const std::vector<BlockCosts>& blocks,
                             int keep) {
  Climber climber(problem, blocks, keep);
  const auto climb_from_balanced = [&] {
    const auto count = blocks.size();
    const std::size_t devices = problem.devices;
    Ends finest(count);
    for (std::size_t b = 0; b < count; ++b) finest[b] = static_cast<int>(b) + 1;
    climber.climb(finest);
    // Stage counts that are multiples of the devices leave none of them idle in the last round.
    const std::size_t stride = std::max<std::size_t>(1, count / devices / 12) * devices;
    for (std::size_t stages = devices; stages < count; stages += stride) {
      climber.climb(balanced_partition(problem, blocks, static_cast<int>(stages)));
    }
    climber.climb(balanced_partition(problem, blocks, problem.devices + 1));
  };
  std::vector<Ends> of_stage_counts;
  const auto climb_each_count = [&] { of_stage_counts = climb_stage_counts(problem, blocks); };
  side_by_side(std::vector<std::function<void()>>{climb_from_balanced, climb_each_count});
  for (const Ends& ends : of_stage_counts) climber.offer(ends);
  PartitionResult result;
  result.best = climber.take();
  result.lower_bound = partition_lower_bound(problem, blocks);
  return with_gap(std::move(result));
}

PartitionResult search_partition(const EvaluatorProblem& problem,
                                 const std::vector<BlockCosts>& blocks, int keep) {
  FERRY_CHECK(!blocks.empty() && keep > 0, "a chain and room for an answer");
  return blocks.size() <= kExactBlocks ? branch_and_bound(problem, blocks, keep)
                                       : local_search(problem, blocks, keep);
}

}  // namespace ferry
