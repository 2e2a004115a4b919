#include "papers/roundpipe/roundpipe_dispatch.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace ferry {
namespace {

int visits(const RoundPipeDispatch& dispatch) {
  return static_cast<int>(dispatch.stage_times.size() * dispatch.rounds.size());
}

// What a step leaves to the next: when each device is free, counted from the next step's first
// device and relative to the last end. Runs with equal states go on equally.
class Sequence {
 public:
  explicit Sequence(const RoundPipeDispatch& dispatch)
      : dispatch_(dispatch), free_(dispatch.devices, 0.0) {}

  /// Dispatches one more step and returns its end.
  double step() {
    double last = 0;
    for (const int micro_batches : dispatch_.rounds) {
      std::vector<double> input(micro_batches, 0.0);
      for (const double time : dispatch_.stage_times) {
        for (double& ready : input) {
          ready = free_[device_] = std::max(free_[device_], ready) + time;
        }
        device_ = (device_ + 1) % free_.size();
      }
      last = std::max(last, *std::max_element(input.begin(), input.end()));
    }
    return last;
  }

  std::vector<double> state(double end) const {
    std::vector<double> result;
    for (std::size_t d = 0; d < free_.size(); ++d) {
      result.push_back(free_[(device_ + d) % free_.size()] - end);
    }
    return result;
  }

 private:
  const RoundPipeDispatch& dispatch_;
  std::vector<double> free_;  // by device
  std::size_t device_ = 0;    // of the next slot
};

bool same_state(const std::vector<double>& a, const std::vector<double>& b, double slack) {
  return std::equal(a.begin(), a.end(), b.begin(),
                    [&](double x, double y) { return std::abs(x - y) <= slack; });
}

constexpr int kMostSteps = 256;  // a sequence that has not repeated by then is averaged

}  // namespace

std::vector<int> even_rounds(int micro_batches, int least) {
  FERRY_CHECK(micro_batches > 0 && least > 0, "micro-batches and the size of a round");
  const int rounds = std::max(1, micro_batches / least);
  std::vector<int> sizes(rounds, micro_batches / rounds);
  for (int r = 0; r < micro_batches % rounds; ++r) ++sizes[r];
  return sizes;
}

std::vector<double> dispatch_ends(const RoundPipeDispatch& dispatch, int steps) {
  Sequence sequence(dispatch);
  std::vector<double> ends;
  for (int step = 0; step < steps; ++step) ends.push_back(sequence.step());
  return ends;
}

int dispatch_cycle(const RoundPipeDispatch& dispatch) {
  return dispatch.devices / std::gcd(dispatch.devices, visits(dispatch));
}

double steady_step(const RoundPipeDispatch& dispatch) {
  Sequence sequence(dispatch);
  std::vector<double> ends;
  std::vector<std::vector<double>> states;
  while (static_cast<int>(ends.size()) < kMostSteps) {
    ends.push_back(sequence.step());
    states.push_back(sequence.state(ends.back()));
    const double slack = 1e-12 * ends.back();
    for (std::size_t earlier = ends.size() - 1; earlier-- > 0;) {
      if (!same_state(states[earlier], states.back(), slack)) continue;
      return (ends.back() - ends[earlier]) / static_cast<double>(ends.size() - 1 - earlier);
    }
  }
  const std::size_t half = ends.size() / 2;
  return (ends.back() - ends[half - 1]) / static_cast<double>(ends.size() - half);
}

double dispatch_bubble(const RoundPipeDispatch& dispatch, double step) {
  const double round =
      std::accumulate(dispatch.stage_times.begin(), dispatch.stage_times.end(), 0.0);
  const int micro_batches = std::accumulate(dispatch.rounds.begin(), dispatch.rounds.end(), 0);
  return 1 - round * micro_batches / (dispatch.devices * step);
}

std::vector<double> stage_times(const RoundPipePartition& partition) {
  std::vector<double> times;
  for (const RoundPipeStage& stage : partition.stages) times.push_back(stage.time);
  return times;
}

RoundPipeChoice search_roundpipe(const RoundPipeSearch& search,
                                 const std::vector<RoundPipeLayer>& layers) {
  RoundPipeProblem problem = search.problem;
  std::vector<RoundPipePartition> partitions;
  for (const RoundPipeCost cost : {RoundPipeCost::printed, RoundPipeCost::steady}) {
    problem.cost = cost;
    for (RoundPipePartition& one : roundpipe_partitions(problem, layers, search.keep)) {
      if (auto even = evened(one, layers, problem.memory)) partitions.push_back(std::move(*even));
      partitions.push_back(std::move(one));
    }
  }
  const int most_rounds =
      static_cast<int>(even_rounds(problem.micro_batches, problem.devices).size());
  RoundPipeChoice best;
  for (RoundPipePartition& partition : partitions) {
    for (int rounds = most_rounds; rounds >= 1; rounds = rounds / 2) {
      const RoundPipeDispatch dispatch{
          problem.devices, stage_times(partition),
          even_rounds(problem.micro_batches, problem.micro_batches / rounds)};
      const double step = search.flush ? dispatch_ends(dispatch, 1).back() : steady_step(dispatch);
      const bool fewer =
          step == best.step && partition.stages.size() < best.partition.stages.size();
      if (!best.partition.stages.empty() && step >= best.step && !fewer) continue;
      best = {partition, dispatch.rounds, step};
    }
  }
  return best;
}

}  // namespace ferry
