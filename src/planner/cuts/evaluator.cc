#include "planner/cuts/evaluator.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace ferry {
namespace {

// Constraints (5) and (6): what fits beside the predecessor on the device, and what the link moves
// while the predecessor runs.
double prefetched(const EvaluatorProblem& problem, double predecessor_memory,
                  double predecessor_duration, double upload) {
  const double room = problem.memory - predecessor_memory;
  const double moved = problem.bandwidth * predecessor_duration;
  return std::max(0.0, std::min({room, moved, upload}));
}

class Sweep {
 public:
  /// `listed` are the micro-batches that get a start time, ascending; the first and the last are
  /// enough (step_of_stages() in the header).
  Sweep(const EvaluatorProblem& problem, const std::vector<StageCosts>& stages,
        std::vector<int> listed)
      : problem_(problem),
        stages_(stages),
        count_(stages.size()),
        slots_(problem.devices),
        listed_(std::move(listed)),
        forward_(count_ * listed_.size()),
        backward_(forward_.size()),
        forward_prefetch_(count_),
        backward_prefetch_(count_) {}

  /// Returns the step; infinity when constraint (4) fails.
  double run() {
    for (const StageCosts& stage : stages_) {  // constraint (4)
      if (stage.forward_memory > problem_.memory || stage.backward_memory > problem_.memory) {
        return std::numeric_limits<double>::infinity();
      }
    }
    for (std::size_t j = 0; j < count_; ++j) forward(j);
    forward_end_ = last(forward_, count_ - 1) + stages_.back().forward_time;
    for (std::size_t j = count_; j-- > 0;) backward(j);
    return with_updates(last(backward_, 0) + stages_.front().backward_time);
  }

  StageSchedule schedule(double step) const {
    StageSchedule result;
    result.feasible = true;
    result.forward = by_stage(forward_);
    result.backward = by_stage(backward_);
    result.forward_prefetch = forward_prefetch_;
    result.backward_prefetch = backward_prefetch_;
    result.forward_end = forward_end_;
    result.step = step;
    return result;
  }

 private:
  using Times = std::vector<double>;  // [stage][place in listed_], flat

  double* starts(Times& times, std::size_t j) { return times.data() + j * listed_.size(); }
  double first(const Times& times, std::size_t j) const { return times[j * listed_.size()]; }
  double last(const Times& times, std::size_t j) const {
    return times[(j + 1) * listed_.size() - 1];
  }

  std::vector<std::vector<double>> by_stage(const Times& times) const {
    std::vector<std::vector<double>> result;
    for (std::size_t j = 0; j < count_; ++j) {
      const auto from = times.begin() + static_cast<std::ptrdiff_t>(j * listed_.size());
      result.emplace_back(from, from + static_cast<std::ptrdiff_t>(listed_.size()));
    }
    return result;
  }

  double passing(double bytes) const {
    return bytes / problem_.bandwidth + problem_.switches.stage_overhead;
  }

  void forward(std::size_t j) {
    const StageCosts& stage = stages_[j];
    double* const start = starts(forward_, j);
    for (std::size_t m = 0; m < listed_.size(); ++m) {
      double t = 0;
      if (j > 0) {  // constraint (8)
        const StageCosts& before = stages_[j - 1];
        t = starts(forward_, j - 1)[m] + before.forward_time + passing(before.activation);
      }
      if (m > 0) {  // constraint (10)
        t = std::max(t, start[m - 1] + (listed_[m] - listed_[m - 1]) * stage.forward_time);
      } else if (j >= slots_) {  // constraint (9) behind the stage that ran on this device before
        const StageCosts& before = stages_[j - slots_];
        const double begin = first(forward_, j - slots_);
        const double end = last(forward_, j - slots_) + before.forward_time;
        const double prefetch =
            prefetched(problem_, before.forward_memory, end - begin, stage.forward_upload);
        forward_prefetch_[j] = prefetch;
        t = std::max(t, end + loading(stage.forward_upload - prefetch));
      } else if (problem_.switches.first_loads) {
        t = std::max(t, passing(stage.forward_upload));
      }
      start[m] = t;
    }
  }

  void backward(std::size_t j) {
    const StageCosts& stage = stages_[j];
    double* const start = starts(backward_, j);
    for (std::size_t m = 0; m < listed_.size(); ++m) {
      double t = 0;
      if (j + 1 < count_) {  // constraint (8)
        const StageCosts& after = stages_[j + 1];
        t = starts(backward_, j + 1)[m] + after.backward_time + passing(after.activation_gradient);
      } else if (m == 0) {  // constraint (11)
        t = forward_end_;
      }
      if (m > 0) {  // constraint (10)
        t = std::max(t, start[m - 1] + (listed_[m] - listed_[m - 1]) * stage.backward_time);
      } else if (j + slots_ < count_) {  // constraint (9)
        const StageCosts& before = stages_[j + slots_];
        const double begin = first(backward_, j + slots_);
        const double end = last(backward_, j + slots_) + before.backward_time;
        const double prefetch =
            prefetched(problem_, before.backward_memory, end - begin, stage.backward_upload);
        backward_prefetch_[j] = prefetch;
        t = std::max(t, end + loading(stage.backward_upload - prefetch));
      }
      start[m] = t;
    }
  }

  // What is left to load when the device is free; a complete prefetch costs nothing more.
  double loading(double bytes) const { return bytes > 0 ? passing(bytes) : 0.0; }

  // Gradients leave one stage at a time per device, and the host updates in order of arrival.
  double with_updates(double step) const {
    const EvaluatorSwitches& switches = problem_.switches;
    if (!switches.gradient_downloads && !switches.updates) return step;
    std::vector<double> link_free(slots_, 0.0);
    std::vector<double> landed(count_);
    double all_landed = 0;
    for (std::size_t j = count_; j-- > 0;) {
      double end = last(backward_, j) + stages_[j].backward_time;
      if (switches.gradient_downloads) {
        double& link = link_free[j % slots_];
        end = link = std::max(end, link) + passing(stages_[j].gradient_download);
      }
      landed[j] = end;
      all_landed = std::max(all_landed, end);
    }
    step = std::max(step, all_landed);
    if (!switches.updates) return step;
    double host = switches.updates_wait_for_all ? all_landed : 0.0;
    for (std::size_t j = count_; j-- > 0;) {
      host = std::max(host, landed[j]) + stages_[j].update_time;
    }
    return std::max(step, host);
  }

  const EvaluatorProblem& problem_;
  const std::vector<StageCosts>& stages_;
  const std::size_t count_;
  const std::size_t slots_;
  const std::vector<int> listed_;
  Times forward_;
  Times backward_;
  std::vector<double> forward_prefetch_;
  std::vector<double> backward_prefetch_;
  double forward_end_ = 0;
};

void check(const EvaluatorProblem& problem, const std::vector<StageCosts>& stages) {
  FERRY_CHECK(problem.devices > 0 && problem.micro_batches > 0, "devices and micro-batches");
  FERRY_CHECK(problem.bandwidth > 0, "the evaluator needs a bandwidth");
  FERRY_CHECK(!stages.empty(), "a partition has at least one stage");
}

}  // namespace

StageSchedule evaluate_stages(const EvaluatorProblem& problem,
                              const std::vector<StageCosts>& stages) {
  check(problem, stages);
  std::vector<int> all(problem.micro_batches);
  std::iota(all.begin(), all.end(), 0);
  Sweep sweep(problem, stages, std::move(all));
  const double step = sweep.run();
  return step == std::numeric_limits<double>::infinity() ? StageSchedule{} : sweep.schedule(step);
}

double step_of_stages(const EvaluatorProblem& problem, const std::vector<StageCosts>& stages) {
  check(problem, stages);
  const int last = problem.micro_batches - 1;
  return Sweep(problem, stages, last == 0 ? std::vector<int>{0} : std::vector<int>{0, last}).run();
}

}  // namespace ferry
