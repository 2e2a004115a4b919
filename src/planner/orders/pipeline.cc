#include "planner/orders/pipeline.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"

namespace ferry {
namespace {

std::vector<std::vector<double>> table(const Pipeline& pipeline) {
  return std::vector<std::vector<double>>(pipeline.stages(),
                                          std::vector<double>(pipeline.micro_batches, 0.0));
}

// What has been done of a pipeline: every stage takes its micro-batches in any order.
class Done {
 public:
  explicit Done(const Pipeline& pipeline)
      : stages_(pipeline.stages()),
        forward_(stages_, std::vector<bool>(pipeline.micro_batches)),
        backward_(forward_) {}

  bool ready(const PipelineTask& task) const {
    const std::size_t m = task.micro_batch;
    if (!task.backward) return task.stage == 0 || forward_[task.stage - 1][m];
    if (!forward_[task.stage][m]) return false;
    return task.stage == stages_ - 1 || backward_[task.stage + 1][m];
  }
  void finish(const PipelineTask& task) {
    auto& done = task.backward ? backward_ : forward_;
    done[task.stage][task.micro_batch] = true;
  }

 private:
  int stages_;
  std::vector<std::vector<bool>> forward_;
  std::vector<std::vector<bool>> backward_;
};

}  // namespace

bool one_stage_per_device(const Pipeline& pipeline) {
  std::vector<int> devices = pipeline.device;
  std::sort(devices.begin(), devices.end());
  return std::adjacent_find(devices.begin(), devices.end()) == devices.end();
}

std::vector<PipelineTask> sequence_of(const Pipeline& pipeline, const DeviceOrders& orders) {
  Done done(pipeline);
  std::vector<PipelineTask> sequence;
  std::vector<std::size_t> next(orders.size(), 0);
  for (bool advanced = true; advanced;) {
    advanced = false;
    for (std::size_t d = 0; d < orders.size(); ++d) {
      if (next[d] == orders[d].size() || !done.ready(orders[d][next[d]])) continue;
      sequence.push_back(orders[d][next[d]++]);
      done.finish(sequence.back());
      advanced = true;
    }
  }
  return sequence;
}

PipelineTimes earliest_times(const Pipeline& pipeline, const DeviceOrders& orders) {
  std::size_t tasks = 0;
  for (const auto& order : orders) tasks += order.size();
  const std::vector<PipelineTask> sequence = sequence_of(pipeline, orders);
  FERRY_CHECK(sequence.size() == tasks, "the devices' orders wait for each other");
  PipelineTimes times{table(pipeline), table(pipeline), 0};
  std::vector<double> free(orders.size(), 0.0);
  for (const PipelineTask& task : sequence) {
    const std::size_t s = task.stage;
    const std::size_t m = task.micro_batch;
    double input = 0;
    if (!task.backward && s > 0) input = times.forward[s - 1][m] + pipeline.forward[s - 1];
    if (task.backward && s + 1 < pipeline.device.size()) {
      input = times.backward[s + 1][m] + pipeline.backward[s + 1];
    }
    double& device = free[pipeline.device[s]];
    const double start = std::max(device, input);
    (task.backward ? times.backward : times.forward)[s][m] = start;
    device = start + (task.backward ? pipeline.backward[s] : pipeline.forward[s]);
    times.makespan = std::max(times.makespan, device);
  }
  return times;
}

double efficiency(const Pipeline& pipeline, double makespan) {
  double work = 0;
  for (std::size_t s = 0; s < pipeline.device.size(); ++s) {
    work += pipeline.forward[s] + pipeline.backward[s];
  }
  return pipeline.micro_batches * work / (pipeline.devices * makespan);
}

std::vector<int> stages_in_flight(const Pipeline& pipeline, const DeviceOrders& orders) {
  std::vector<int> now(pipeline.stages(), 0);
  std::vector<int> most = now;
  for (const auto& order : orders) {
    for (const PipelineTask& task : order) {
      const std::size_t s = task.stage;
      now[s] += task.backward ? -1 : 1;
      most[s] = std::max(most[s], now[s]);
    }
  }
  return most;
}

std::vector<int> devices_in_flight(const Pipeline& pipeline, const DeviceOrders& orders) {
  std::vector<int> most(pipeline.devices, 0);
  for (std::size_t d = 0; d < orders.size(); ++d) {
    int now = 0;
    for (const PipelineTask& task : orders[d]) {
      now += task.backward ? -1 : 1;
      most[d] = std::max(most[d], now);
    }
  }
  return most;
}

Staleness steady_staleness(int depth, int accumulate) {
  FERRY_CHECK(depth >= 0 && accumulate > 0, "a depth and a number of backwards per update");
  Staleness result{depth + 1, 0, 0};
  for (int i = depth; i < depth + accumulate; ++i) {
    const int staleness = i / accumulate - (i - depth) / accumulate;
    result.least = std::min(result.least, staleness);
    result.most = std::max(result.most, staleness);
    result.mean += staleness;
  }
  result.mean /= accumulate;
  return result;
}

double pipeline_efficiency(int micro_batches, int devices) {
  return static_cast<double>(micro_batches) / (micro_batches + devices - 1);
}

double interleaved_efficiency(int micro_batches, int devices, int chunks) {
  return micro_batches / (micro_batches + static_cast<double>(devices - 1) / chunks);
}

}  // namespace ferry
