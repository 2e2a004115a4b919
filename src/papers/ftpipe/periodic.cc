#include "papers/ftpipe/periodic.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <utility>

#include "base/check.h"

namespace ferry {
namespace {

constexpr double kSlack = 1e-9;  // of a period: sums of times in another order are equal

double time_of(const Pipeline& pipeline, const PeriodicTask& task) {
  return (task.backward ? pipeline.backward : pipeline.forward)[task.stage];
}

// The first time at or behind `time` that is congruent to `slot` modulo `period`.
double next_congruent(double time, double slot, double period) {
  return slot + std::ceil((time - slot) / period - kSlack) * period;
}

double longest_load(const Pipeline& pipeline) {
  std::vector<double> load(pipeline.devices, 0.0);
  for (std::size_t s = 0; s < pipeline.device.size(); ++s) {
    load[pipeline.device[s]] += pipeline.forward[s] + pipeline.backward[s];
  }
  return *std::max_element(load.begin(), load.end());
}

// Searches by annealing; one evaluation is O(stages).
class Annealer {
 public:
  Annealer(const Pipeline& pipeline, const PeriodicSearch& search)
      : pipeline_(pipeline), random_(search.seed), bytes_(search.input_bytes) {
    if (bytes_.empty()) bytes_.assign(pipeline.device.size(), 1.0);
    double total = 0;
    for (const double one : bytes_) total += one;
    period_ = longest_load(pipeline);
    mean_bytes_ = total / static_cast<double>(bytes_.size());
    rounds_ = search.rounds;
  }

  PeriodicOrder run() {
    PeriodicOrder now = first_order();
    double cost = cost_of(now);
    PeriodicOrder best = now;
    double least = cost;
    for (int round = 0; round < rounds_; ++round) {
      // From a few in-flight micro-batches down to none, several times over.
      const double phase = std::fmod(static_cast<double>(round) * kReheats / rounds_, 1.0);
      const double temperature = mean_bytes_ * kHottest * (1 - phase) * (1 - phase);
      PeriodicOrder next = moved(now);
      const double next_cost = cost_of(next);
      const double worse = next_cost - cost;
      if (worse > 0 && uniform() >= std::exp(-worse / std::max(temperature, 1e-12))) continue;
      now = std::move(next);
      cost = next_cost;
      if (cost >= least) continue;
      best = now;
      least = cost;
    }
    return best;
  }

 private:
  static constexpr int kReheats = 4;
  static constexpr double kHottest = 1.0;  // micro-batches in flight

  double uniform() { return static_cast<double>(random_() >> 11) * 0x1.0p-53; }
  std::size_t below(std::size_t count) { return random_() % count; }

  // Forwards in chain order, then backwards, each device starting when its first input is there.
  PeriodicOrder first_order() const {
    PeriodicOrder order;
    order.offset.assign(pipeline_.devices, 0.0);
    order.tasks.resize(pipeline_.devices);
    for (int s = 0; s < pipeline_.stages(); ++s) {
      order.tasks[pipeline_.device[s]].push_back({false, s});
    }
    for (int s = pipeline_.stages() - 1; s >= 0; --s) {
      order.tasks[pipeline_.device[s]].push_back({true, s});
    }
    return order;
  }

  // In-flight bytes first, latency to tell equals apart: it counts for less than one byte's share.
  double cost_of(const PeriodicOrder& order) const {
    const PeriodicResult result = evaluate_periodic(pipeline_, order);
    double cost = 0;
    for (std::size_t s = 0; s < bytes_.size(); ++s) cost += bytes_[s] * result.stage_in_flight[s];
    const double visits = 2.0 * static_cast<double>(bytes_.size());
    return cost + 0.5 * mean_bytes_ * result.latency / (visits * period_);
  }

  PeriodicOrder moved(const PeriodicOrder& from) {
    PeriodicOrder order = from;
    const std::size_t d = below(order.tasks.size());
    auto& tasks = order.tasks[d];
    if (tasks.empty()) return order;
    switch (below(4)) {
      case 0:
        std::swap(tasks[below(tasks.size())], tasks[below(tasks.size())]);
        break;
      case 1:
        order.offset[d] = std::floor(uniform() * period_);
        break;
      case 2:
        align(order, d, below(tasks.size()));
        break;
      default:  // swapped, then aligned with a chain predecessor
        std::swap(tasks[below(tasks.size())], tasks[below(tasks.size())]);
        align(order, d, below(tasks.size()));
    }
    return order;
  }

  // Moves the device's offset so that its task number `t` starts when its predecessor ends.
  void align(PeriodicOrder& order, std::size_t d, std::size_t t) const {
    const PeriodicTask task = order.tasks[d][t];
    PeriodicTask before = task;
    if (!task.backward) {
      if (task.stage == 0) return;
      before.stage = task.stage - 1;
    } else if (task.stage + 1 < pipeline_.stages()) {
      before.stage = task.stage + 1;
    } else {
      before.backward = false;
    }
    const std::size_t other = pipeline_.device[before.stage];
    if (other == d) return;
    double end = order.offset[other];
    for (const PeriodicTask& one : order.tasks[other]) {
      end += time_of(pipeline_, one);
      if (one == before) break;
    }
    for (std::size_t i = 0; i < t; ++i) end -= time_of(pipeline_, order.tasks[d][i]);
    order.offset[d] = end - std::floor(end / period_) * period_;
  }

  const Pipeline& pipeline_;
  std::mt19937_64 random_;
  std::vector<double> bytes_;  // by stage
  double mean_bytes_ = 0;
  double period_ = 0;
  int rounds_ = 0;
};

}  // namespace

PeriodicResult evaluate_periodic(const Pipeline& pipeline, const PeriodicOrder& order) {
  const auto stages = pipeline.stages();
  PeriodicResult result;
  result.period = longest_load(pipeline);
  std::vector<double> forward_slot(stages);
  std::vector<double> backward_slot(stages);
  for (std::size_t d = 0; d < order.tasks.size(); ++d) {
    double slot = order.offset[d];
    for (const PeriodicTask& task : order.tasks[d]) {
      (task.backward ? backward_slot : forward_slot)[task.stage] = slot;
      slot += time_of(pipeline, task);
    }
  }
  result.forward.resize(stages);
  result.backward.resize(stages);
  result.stage_in_flight.resize(stages);
  result.device_in_flight.assign(order.tasks.size(), 0);
  double end = forward_slot[0];
  for (int s = 0; s < stages; ++s) {
    result.forward[s] = next_congruent(end, forward_slot[s], result.period);
    end = result.forward[s] + pipeline.forward[s];
  }
  for (std::size_t s = stages; s-- > 0;) {
    result.backward[s] = next_congruent(end, backward_slot[s], result.period);
    end = result.backward[s] + pipeline.backward[s];
    result.stage_in_flight[s] =
        static_cast<int>(std::ceil((end - result.forward[s]) / result.period - kSlack));
    result.device_in_flight[pipeline.device[s]] += result.stage_in_flight[s];
  }
  result.latency = end - result.forward[0];
  return result;
}

double periodic_makespan(const Pipeline& pipeline, const PeriodicResult& result) {
  return result.latency + (pipeline.micro_batches - 1) * result.period;
}

PeriodicOrder search_periodic(const Pipeline& pipeline, const PeriodicSearch& search) {
  FERRY_CHECK(search.rounds >= 0, "a number of moves");
  FERRY_CHECK(search.input_bytes.empty() || search.input_bytes.size() == pipeline.device.size(),
              "bytes for every stage");
  return Annealer(pipeline, search).run();
}

}  // namespace ferry
