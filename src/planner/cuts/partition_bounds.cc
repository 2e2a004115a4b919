#include "planner/cuts/partition_bounds.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"

namespace ferry {
namespace {

// One pass in its order of execution. D = min(N, S) devices have a stage. The first D stages of the
// pass (in execution) find their device empty, the last D are the last ones of their devices.
//
// Every device contributes an interval from the start of its first stage to the end of its last:
// device d (from 0) starts after d stages, which hold at least the first d layers, and what ends
// last but i on the devices is followed by i stages, which hold at least the last i layers. So with
// fill = sum over d < D of (time of the first d layers and of the last d layers, and of passing
// 2 d boundaries), any lower bound X on the summed lengths of these intervals gives
//     length of the pass >= (X + fill) / D.
// From a stage q to the next stage j on its device, starts are at least
//     M T_q  (10),   W_j / B  (6 and 9 with (7)),   M T_q + (W_j + S_q - G) / B  (5 and 9)
// apart, and the last stage of a device lasts M T. Summed over all stages:
//     X >= M * all time                                                             compute
//     X >= (all W - W of the first D stages) / B + M * time of the last D stages    link
//     X >= M * all time + (all W - W of the first D stages + all S - S of the last D stages
//                          - (S - D) G) / B                                         memory
// And one micro-batch passes all stages while the others wait for the longest, which is at least
// the mean of any set of stages:
//     length >= all time + passing (S - 1) boundaries + (M - 1) longest stage.       fill
class PassBound {
 public:
  PassBound(const EvaluatorProblem& problem, const std::vector<StageCosts>& blocks, bool backward)
      : problem_(problem), layers_(blocks.size()) {
    const auto place = [&](std::size_t n) { return backward ? layers_ - 1 - n : n; };
    time_ = upload_ = memory_ = {0.0};
    std::vector<double> passing;
    for (std::size_t n = 0; n < layers_; ++n) {
      const StageCosts& block = blocks[place(n)];
      time_.push_back(time_.back() + (backward ? block.backward_time : block.forward_time));
      upload_.push_back(upload_.back() + (backward ? block.backward_upload : block.forward_upload));
      memory_.push_back(memory_.back() + (backward ? block.backward_memory : block.forward_memory));
      longest_ = std::max(longest_, time_[n + 1] - time_[n]);
      if (n + 1 < layers_) {
        passing.push_back((backward ? block.activation_gradient : block.activation) /
                              problem.bandwidth +
                          problem.switches.stage_overhead);
      }
    }
    std::sort(passing.begin(), passing.end());  // any d boundaries cost at least the d cheapest
    passing_ = {0.0};
    for (const double cost : passing) passing_.push_back(passing_.back() + cost);
  }

  double length(int stages) const {
    const std::size_t count = stages;
    const std::size_t devices = std::min(stages, problem_.devices);
    const double d = static_cast<double>(devices);
    const double m = problem_.micro_batches;
    const double all = time_.back();
    double fill = 0;
    for (std::size_t i = 0; i < devices; ++i) {
      fill += time_[i] + (all - time_[layers_ - i]) + 2 * passing_[i];
    }
    const double compute = m * all + fill;
    const double chain = all + passing_[count - 1];
    const double mean = all / static_cast<double>(count);
    // p layers in the first D stages, q in the last D: the least over all that memory allows.
    const std::size_t most = std::min(layers_ - (count - devices), fitting(devices, false));
    const std::size_t most_last = std::min(layers_ - (count - devices), fitting(devices, true));
    double least_first = kNone;
    for (std::size_t p = devices; p <= most; ++p) {
      const double first = time_[p] / d;
      const double uploads = (upload_.back() - upload_[p]) / problem_.bandwidth;
      double least_last = kNone;
      for (std::size_t q = devices; q <= most_last; ++q) {
        const double last = all - time_[layers_ - q];
        const double longest = std::max({longest_, mean, first, last / d});
        const double room = static_cast<double>(count - devices) * problem_.memory;
        const double beside = (memory_[layers_ - q] - room) / problem_.bandwidth;
        const double sum =
            std::max({compute, uploads + m * last + fill, compute + uploads + beside});
        least_last = std::min(least_last, std::max(chain + (m - 1) * longest, sum / d));
      }
      least_first = std::min(least_first, least_last);
    }
    return least_first == kNone ? std::max(chain + (m - 1) * std::max(longest_, mean), compute / d)
                                : least_first;
  }

 private:
  static constexpr double kNone = 1e300;

  // The most layers that `stages` stages hold, counted from one end of the pass: each is filled.
  std::size_t fitting(std::size_t stages, bool from_end) const {
    const double room = problem_.memory * (1 + 1e-12);
    std::size_t covered = 0;
    for (std::size_t j = 0; j < stages; ++j) {
      const std::size_t first = covered;
      const auto needed = [&](std::size_t end) {
        return from_end ? memory_[layers_ - first] - memory_[layers_ - end]
                        : memory_[end] - memory_[first];
      };
      while (covered < layers_ && needed(covered + 1) <= room) ++covered;
    }
    return covered;
  }

  const EvaluatorProblem& problem_;
  const std::size_t layers_;
  std::vector<double> time_, upload_, memory_;  // of the first n layers
  std::vector<double> passing_;                 // of n boundaries, at least
  double longest_ = 0;
};

// The fewest stages that memory allows: each takes what fits. 0: a block fits nowhere.
int fewest_stages(const EvaluatorProblem& problem, const std::vector<StageCosts>& blocks) {
  const double room = problem.memory * (1 + 1e-12);
  int stages = 1;
  double forward = 0;
  double backward = 0;
  for (const StageCosts& block : blocks) {
    forward += block.forward_memory;
    backward += block.backward_memory;
    if (std::max(forward, backward) <= room) continue;
    ++stages;
    forward = block.forward_memory;
    backward = block.backward_memory;
    if (std::max(forward, backward) > room) return 0;
  }
  return stages;
}

class StepBound {
 public:
  StepBound(const EvaluatorProblem& problem, const std::vector<StageCosts>& blocks)
      : problem_(problem),
        blocks_(blocks),
        forward_(problem, blocks, false),
        backward_(problem, blocks, true) {}

  // Backward begins when forward has ended (11). With first loads nothing starts before the first
  // layer is there, and all else follows that start.
  double at(int stages) const {
    const EvaluatorSwitches& switches = problem_.switches;
    double forward = forward_.length(stages);
    if (switches.first_loads) forward += moving(blocks_.front().forward_upload);
    return with_updates(forward, forward + backward_.length(stages), stages);
  }

 private:
  double moving(double bytes) const {
    return bytes / problem_.bandwidth + problem_.switches.stage_overhead;
  }

  // The first stage's gradient leaves after its backward, which is the last of all, and is updated
  // after that. All updates follow one another, from the landing of the last stage's gradient, or,
  // when they wait for all, of every stage's.
  double with_updates(double forward, double step, int stages) const {
    const EvaluatorSwitches& switches = problem_.switches;
    double first_landed = forward + problem_.micro_batches * blocks_.back().backward_time;
    if (switches.gradient_downloads) {
      // On every device: from the end of its first backward, stage by stage.
      double downloads = stages * switches.stage_overhead;
      for (const StageCosts& block : blocks_) {
        downloads += block.gradient_download / problem_.bandwidth;
      }
      const double devices = std::min(stages, problem_.devices);
      step = std::max(step + moving(blocks_.front().gradient_download),
                      first_landed + downloads / devices);
      first_landed += moving(blocks_.back().gradient_download);
    }
    if (!switches.updates) return step;
    double updates = 0;
    for (const StageCosts& block : blocks_) updates += block.update_time;
    if (switches.updates_wait_for_all) return step + updates;
    return std::max(step + blocks_.front().update_time, first_landed + updates);
  }

  const EvaluatorProblem& problem_;
  const std::vector<StageCosts>& blocks_;
  const PassBound forward_;
  const PassBound backward_;
};

}  // namespace

double stage_count_lower_bound(const EvaluatorProblem& problem,
                               const std::vector<StageCosts>& blocks, int stages) {
  FERRY_CHECK(stages >= 1 && stages <= std::ssize(blocks), "a stage count");
  return StepBound(problem, blocks).at(stages);
}

double partition_lower_bound(const EvaluatorProblem& problem,
                             const std::vector<StageCosts>& blocks) {
  const int fewest = fewest_stages(problem, blocks);
  if (fewest == 0) return 0;
  const StepBound bound(problem, blocks);
  double least = bound.at(fewest);
  for (int stages = fewest + 1; stages <= static_cast<int>(blocks.size()); ++stages) {
    least = std::min(least, bound.at(stages));
  }
  return least;
}

}  // namespace ferry
