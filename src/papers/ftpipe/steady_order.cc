#include "papers/ftpipe/steady_order.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/check.h"

namespace ferry {
namespace {

// Where each stage's two tasks stand: position in the device's period, and lag.
struct Seat {
  std::size_t position = 0;
  int lag = 0;
};

struct Seats {
  std::vector<Seat> forward;
  std::vector<Seat> backward;
};

Seats seats_of(const Pipeline& pipeline, const SteadyOrder& order) {
  Seats seats{std::vector<Seat>(pipeline.stages()), std::vector<Seat>(pipeline.stages())};
  for (const auto& tasks : order) {
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      (tasks[i].backward ? seats.backward : seats.forward)[tasks[i].stage] = {i, tasks[i].lag};
    }
  }
  return seats;
}

}  // namespace

SteadyOrder steady_one_f_one_b(const Pipeline& pipeline, int window) {
  FERRY_CHECK(one_stage_per_device(pipeline), "one stage per device");
  const bool limited = window > 0 && window < pipeline.stages();
  double period = 0;
  double round_trip = 0;
  for (std::size_t s = 0; s < pipeline.device.size(); ++s) {
    period = std::max(period, pipeline.forward[s] + pipeline.backward[s]);
    round_trip += pipeline.forward[s] + pipeline.backward[s];
  }
  if (limited) period = std::max(period, round_trip / window);
  SteadyOrder order(pipeline.devices);
  double away = round_trip;  // from a stage's start of F to its end of B, without waiting
  for (int s = 0; s < pipeline.stages(); ++s) {
    int ahead = pipeline.depth(s);
    if (limited) {
      const double periods = (away - pipeline.backward[s]) / period;
      ahead = std::min({ahead, window - 1, static_cast<int>(periods)});
    }
    order[pipeline.device[s]] = {{false, s, 0}, {true, s, ahead}};
    away -= pipeline.forward[s] + pipeline.backward[s];
  }
  return order;
}

SteadyOrder steady_periodic(const Pipeline& pipeline, const PeriodicResult& result) {
  struct Slot {
    double time;
    SteadyTask task;
  };
  std::vector<std::vector<Slot>> slots(pipeline.devices);
  const auto add = [&](bool backward, int s, double start) {
    // From the first start on; a start that rounding puts a hair before a period belongs to it.
    const double periods = (start - result.forward.front()) / result.period;
    const int lag = static_cast<int>(std::floor(periods + 1e-9));
    slots[pipeline.device[s]].push_back({periods - lag, {backward, s, lag}});
  };
  for (int s = 0; s < pipeline.stages(); ++s) {
    add(false, s, result.forward[s]);
    add(true, s, result.backward[s]);
  }
  SteadyOrder order(slots.size());
  for (std::size_t d = 0; d < slots.size(); ++d) {
    std::stable_sort(slots[d].begin(), slots[d].end(),
                     [](const Slot& a, const Slot& b) { return a.time < b.time; });
    for (const Slot& slot : slots[d]) order[d].push_back(slot.task);
  }
  return order;
}

std::vector<int> steady_in_flight(const Pipeline& pipeline, const SteadyOrder& order) {
  const Seats seats = seats_of(pipeline, order);
  std::vector<int> held;
  for (std::size_t s = 0; s < pipeline.device.size(); ++s) {
    const Seat& forward = seats.forward[s];
    const Seat& backward = seats.backward[s];
    // When F(i) starts, B has been done up to the same period's only if it stands before.
    held.push_back(backward.lag - forward.lag + (backward.position > forward.position ? 1 : 0));
  }
  return held;
}

DeviceOrders filled_and_drained(const Pipeline& pipeline, const SteadyOrder& order) {
  int oldest = 0;
  for (const auto& tasks : order) {
    for (const SteadyTask& task : tasks) oldest = std::max(oldest, task.lag);
  }
  DeviceOrders orders(order.size());
  for (std::size_t d = 0; d < order.size(); ++d) {
    for (int period = 0; period < pipeline.micro_batches + oldest; ++period) {
      for (const SteadyTask& task : order[d]) {
        const int micro_batch = period - task.lag;
        if (micro_batch < 0 || micro_batch >= pipeline.micro_batches) continue;
        orders[d].push_back({task.backward, task.stage, micro_batch});
      }
    }
  }
  return orders;
}

int longest_lag(const Pipeline& pipeline, const SteadyOrder& order) {
  const Seats seats = seats_of(pipeline, order);
  int longest = 0;
  for (std::size_t s = 0; s < pipeline.device.size(); ++s) {
    const bool last = s + 1 == pipeline.device.size();
    if (s > 0) longest = std::max(longest, seats.forward[s].lag - seats.forward[s - 1].lag);
    const int before = last ? seats.forward[s].lag : seats.backward[s + 1].lag;
    longest = std::max(longest, seats.backward[s].lag - before);
  }
  return longest;
}

}  // namespace ferry
