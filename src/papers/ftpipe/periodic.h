// Planned periodic orders for several stages per device: every device repeats one cyclic order of
// its forwards and backwards back to back, so that the throughput is that of the fullest device and
// only memory and latency are left to choose. Ours; FTPipe leaves co-located stages to the driver.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/orders/pipeline.h"

namespace ferry {

/// A task of the period: which micro-batch it is of follows from the slots.
struct PeriodicTask {
  bool backward = false;
  int stage = 0;
  auto operator<=>(const PeriodicTask&) const = default;
};

struct PeriodicOrder {
  std::vector<double> offset;                    // by device: when its first task starts, mod T
  std::vector<std::vector<PeriodicTask>> tasks;  // by device, back to back
};

struct PeriodicResult {
  double period = 0;                  // T, the load of the fullest device per micro-batch
  std::vector<double> forward;        // start of micro-batch 0 by stage; micro-batch m: + m T
  std::vector<double> backward;       // likewise
  double latency = 0;                 // end of the first stage's backward - start of its forward
  std::vector<int> stage_in_flight;   // by stage: ceil((end B - start F) / T)
  std::vector<int> device_in_flight;  // by device: the sum of its stages'
};

/// The first start of every task at or behind its predecessor's end that is congruent to its slot.
/// Requires: every stage's two tasks stand once, on its device.
PeriodicResult evaluate_periodic(const Pipeline& pipeline, const PeriodicOrder& order);

/// The makespan of `pipeline.micro_batches` micro-batches T apart: latency + (M - 1) T.
double periodic_makespan(const Pipeline& pipeline, const PeriodicResult& result);

struct PeriodicSearch {
  std::vector<double> input_bytes;  // by stage: weight of an in-flight micro-batch; empty: all 1
  std::uint64_t seed = 1;
  int rounds = 30'000;  // moves tried in all
};

/// Searches orders and offsets for the least (sum of in-flight by bytes, latency) by simulated
/// annealing: swaps of tasks, new offsets, tasks aligned with the end of their predecessor.
/// Deterministic by seed and rounds.
PeriodicOrder search_periodic(const Pipeline& pipeline, const PeriodicSearch& search = {});

}  // namespace ferry
