#include "planner/orders/list_schedule.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <tuple>

#include "base/check.h"

namespace ferry {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

using Key = std::tuple<int, int, int>;  // the least is taken

Key key_of(ListKey rule, const PipelineTask& task) {
  const int forward = task.backward ? 0 : 1;
  switch (rule) {
    case ListKey::backward_deepest:
      return {forward, -task.stage, task.micro_batch};
    case ListKey::backward_oldest:
      return {forward, task.micro_batch, -task.stage};
    case ListKey::backward_deepest_shallowest:
      return {forward, task.backward ? -task.stage : task.stage, task.micro_batch};
    case ListKey::forward_oldest:
      return {1 - forward, task.micro_batch, -task.stage};
    case ListKey::gpipe:
      if (task.backward) return {0, -task.stage, task.micro_batch};
      return {1, task.micro_batch, task.stage};
  }
  FERRY_UNREACHABLE("a key of the list rule");
}

// Stages take micro-batches in order, so a count per stage and direction is the whole state.
struct StageProgress {
  int forwards_started = 0;
  int forwards_ended = 0;
  int backwards_started = 0;
  int backwards_ended = 0;
  bool warm = true;
};

class ListScheduler {
 public:
  ListScheduler(const Pipeline& pipeline, const ListRule& rule)
      : pipeline_(pipeline),
        rule_(rule),
        progress_(pipeline.stages()),
        stages_of_(pipeline.devices),
        ends_(pipeline.devices, kNever),
        running_(pipeline.devices),
        orders_(pipeline.devices) {
    for (int s = 0; s < pipeline.stages(); ++s) {
      stages_of_[pipeline.device[s]].push_back(s);
      progress_[s].warm = !rule.warm_up || window(s) == 1;
    }
  }

  DeviceOrders run() {
    start_idle();
    while (true) {
      const auto first = std::min_element(ends_.begin(), ends_.end());
      if (*first == kNever) break;
      now_ = *first;
      if (rule_.ties == Ties::one) {
        end(static_cast<int>(first - ends_.begin()));
      } else {
        for (int d = 0; d < pipeline_.devices; ++d) {
          if (ends_[d] == now_) end(d);
        }
      }
      start_idle();
    }
    for (const StageProgress& stage : progress_) {
      FERRY_CHECK(stage.backwards_ended == pipeline_.micro_batches, "a window that lets none pass");
    }
    return std::move(orders_);
  }

 private:
  int window(int stage) const {
    return rule_.window.empty() ? pipeline_.micro_batches
                                : std::min(pipeline_.micro_batches, rule_.window[stage]);
  }

  bool may_forward(int s) const {
    const StageProgress& stage = progress_[s];
    if (stage.forwards_started == pipeline_.micro_batches) return false;
    if (s > 0 && progress_[s - 1].forwards_ended <= stage.forwards_started) return false;
    return stage.forwards_started - stage.backwards_ended < window(s);
  }

  bool may_backward(int s) const {
    const StageProgress& stage = progress_[s];
    if (!stage.warm || stage.backwards_started >= stage.forwards_ended) return false;
    if (rule_.forwards_first && progress_.back().forwards_ended < pipeline_.micro_batches) {
      return false;
    }
    return s + 1 == pipeline_.stages() ||
           progress_[s + 1].backwards_ended > stage.backwards_started;
  }

  void start_idle() {
    for (int d = 0; d < pipeline_.devices; ++d) {
      if (ends_[d] == kNever) start_best(d);
    }
  }

  void start_best(int d) {
    const PipelineTask* best = nullptr;
    PipelineTask tasks[2];
    PipelineTask kept;
    for (const int s : stages_of_[d]) {
      const StageProgress& stage = progress_[s];
      tasks[0] = {false, s, stage.forwards_started};
      tasks[1] = {true, s, stage.backwards_started};
      for (const PipelineTask& task : tasks) {
        if (!(task.backward ? may_backward(s) : may_forward(s))) continue;
        if (best && key_of(rule_.key, *best) <= key_of(rule_.key, task)) continue;
        kept = task;
        best = &kept;
      }
    }
    if (!best) return;
    StageProgress& stage = progress_[best->stage];
    ++(best->backward ? stage.backwards_started : stage.forwards_started);
    const auto& times = best->backward ? pipeline_.backward : pipeline_.forward;
    ends_[d] = now_ + times[best->stage];
    running_[d] = *best;
    orders_[d].push_back(*best);
  }

  void end(int d) {
    ends_[d] = kNever;
    const PipelineTask& task = running_[d];
    StageProgress& stage = progress_[task.stage];
    ++(task.backward ? stage.backwards_ended : stage.forwards_ended);
    // Full once: the window less the micro-batch that the alternation starts with.
    if (stage.forwards_ended >= window(task.stage) - 1) stage.warm = true;
  }

  const Pipeline& pipeline_;
  const ListRule& rule_;
  std::vector<StageProgress> progress_;
  std::vector<std::vector<int>> stages_of_;  // by device
  std::vector<double> ends_;                 // by device: of what it runs, or kNever
  std::vector<PipelineTask> running_;
  DeviceOrders orders_;
  double now_ = 0;
};

}  // namespace

std::vector<int> depth_windows(const Pipeline& pipeline, int injection) {
  std::vector<int> windows;
  for (int s = 0; s < pipeline.stages(); ++s) {
    windows.push_back(injection > 0 ? std::min(pipeline.depth(s) + 1, injection)
                                    : pipeline.depth(s) + 1);
  }
  return windows;
}

DeviceOrders list_schedule(const Pipeline& pipeline, const ListRule& rule) {
  return ListScheduler(pipeline, rule).run();
}

}  // namespace ferry
