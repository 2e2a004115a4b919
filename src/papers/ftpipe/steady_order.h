// A schedule that never drains, as one period that every device repeats: which task of which
// micro-batch, counted back from the newest: the asynchronous pipeline of FTPipe (USENIX ATC 2021).
#pragma once

#include <vector>

#include "papers/ftpipe/periodic.h"
#include "planner/orders/pipeline.h"

namespace ferry {

/// In period k the device runs it for micro-batch k - lag.
struct SteadyTask {
  bool backward = false;
  int stage = 0;
  int lag = 0;
};

/// By device, in order.
using SteadyOrder = std::vector<std::vector<SteadyTask>>;

/// Asynchronous 1F1B with one stage per device: stage s holds d + 1 micro-batches. With a window of
/// fewer than the stages at most so many enter the pipeline, as fast as one round trip allows, and
/// a stage holds what passes it in the time between its forward and its backward. Requires:
/// one_stage_per_device(pipeline).
SteadyOrder steady_one_f_one_b(const Pipeline& pipeline, int window);

/// The planned order of a PeriodicResult.
SteadyOrder steady_periodic(const Pipeline& pipeline, const PeriodicResult& result);

/// By stage: micro-batches in flight.
std::vector<int> steady_in_flight(const Pipeline& pipeline, const SteadyOrder& order);

/// The same order for `pipeline.micro_batches` micro-batches alone, filled and drained.
DeviceOrders filled_and_drained(const Pipeline& pipeline, const SteadyOrder& order);

/// The most periods by which a task lags behind the one that it waits for.
int longest_lag(const Pipeline& pipeline, const SteadyOrder& order);

}  // namespace ferry
