#include "planner/evaluator.h"

#include <algorithm>
#include <cstddef>

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
  Sweep(const EvaluatorProblem& problem, const std::vector<StageCosts>& stages)
      : problem_(problem),
        stages_(stages),
        count_(stages.size()),
        slots_(static_cast<std::size_t>(problem.devices)),
        micro_batches_(static_cast<std::size_t>(problem.micro_batches)) {}

  StageSchedule run() {
    for (const StageCosts& stage : stages_) {  // constraint (4)
      if (stage.forward_memory > problem_.memory || stage.backward_memory > problem_.memory) {
        return {};
      }
    }
    result_.feasible = true;
    result_.forward.assign(count_, std::vector<double>(micro_batches_));
    result_.backward = result_.forward;
    result_.forward_prefetch.assign(count_, 0.0);
    result_.backward_prefetch.assign(count_, 0.0);
    for (std::size_t j = 0; j < count_; ++j) forward(j);
    result_.forward_end = result_.forward.back().back() + stages_.back().forward_time;
    for (std::size_t j = count_; j-- > 0;) backward(j);
    result_.step = result_.backward.front().back() + stages_.front().backward_time;
    finish();
    return std::move(result_);
  }

 private:
  double passing(double bytes) const {
    return bytes / problem_.bandwidth + problem_.switches.stage_overhead;
  }

  void forward(std::size_t j) {
    const StageCosts& stage = stages_[j];
    auto& start = result_.forward[j];
    for (std::size_t m = 0; m < micro_batches_; ++m) {
      double t = 0;
      if (j > 0) {  // constraint (8)
        const StageCosts& before = stages_[j - 1];
        t = result_.forward[j - 1][m] + before.forward_time + passing(before.activation);
      }
      if (m > 0) {  // constraint (10)
        t = std::max(t, start[m - 1] + stage.forward_time);
      } else if (j >= slots_) {  // constraint (9) behind the stage that ran on this device before
        const StageCosts& before = stages_[j - slots_];
        const auto& times = result_.forward[j - slots_];
        const double end = times.back() + before.forward_time;
        const double prefetch =
            prefetched(problem_, before.forward_memory, end - times.front(), stage.forward_upload);
        result_.forward_prefetch[j] = prefetch;
        t = std::max(t, end + loading(stage.forward_upload - prefetch));
      } else if (problem_.switches.first_loads) {
        t = std::max(t, passing(stage.forward_upload));
      }
      start[m] = t;
    }
  }

  void backward(std::size_t j) {
    const StageCosts& stage = stages_[j];
    auto& start = result_.backward[j];
    for (std::size_t m = 0; m < micro_batches_; ++m) {
      double t = 0;
      if (j + 1 < count_) {  // constraint (8)
        const StageCosts& after = stages_[j + 1];
        t = result_.backward[j + 1][m] + after.backward_time + passing(after.activation_gradient);
      } else if (m == 0) {  // constraint (11)
        t = result_.forward_end;
      }
      if (m > 0) {  // constraint (10)
        t = std::max(t, start[m - 1] + stage.backward_time);
      } else if (j + slots_ < count_) {  // constraint (9)
        const StageCosts& before = stages_[j + slots_];
        const auto& times = result_.backward[j + slots_];
        const double end = times.back() + before.backward_time;
        const double prefetch = prefetched(problem_, before.backward_memory, end - times.front(),
                                           stage.backward_upload);
        result_.backward_prefetch[j] = prefetch;
        t = std::max(t, end + loading(stage.backward_upload - prefetch));
      }
      start[m] = t;
    }
  }

  // What is left to load when the device is free; a complete prefetch costs nothing more.
  double loading(double bytes) const { return bytes > 0 ? passing(bytes) : 0.0; }

  // Gradients leave one stage at a time per device, and the host updates in order of arrival.
  void finish() {
    const EvaluatorSwitches& switches = problem_.switches;
    if (!switches.gradient_downloads && !switches.updates) return;
    std::vector<double> link_free(slots_, 0.0);
    std::vector<double> landed(count_);
    double last = 0;
    for (std::size_t j = count_; j-- > 0;) {
      double end = result_.backward[j].back() + stages_[j].backward_time;
      if (switches.gradient_downloads) {
        double& link = link_free[j % slots_];
        end = link = std::max(end, link) + passing(stages_[j].gradient_download);
      }
      landed[j] = end;
      last = std::max(last, end);
    }
    result_.step = std::max(result_.step, last);
    if (!switches.updates) return;
    double host = switches.updates_wait_for_all ? last : 0.0;
    for (std::size_t j = count_; j-- > 0;) {
      host = std::max(host, landed[j]) + stages_[j].update_time;
    }
    result_.step = std::max(result_.step, host);
  }

  const EvaluatorProblem& problem_;
  const std::vector<StageCosts>& stages_;
  const std::size_t count_;
  const std::size_t slots_;
  const std::size_t micro_batches_;
  StageSchedule result_;
};

}  // namespace

StageSchedule evaluate_stages(const EvaluatorProblem& problem,
                              const std::vector<StageCosts>& stages) {
  FERRY_CHECK(problem.devices > 0 && problem.micro_batches > 0, "devices and micro-batches");
  FERRY_CHECK(problem.bandwidth > 0, "the evaluator needs a bandwidth");
  FERRY_CHECK(!stages.empty(), "a partition has at least one stage");
  return Sweep(problem, stages).run();
}

}  // namespace ferry
