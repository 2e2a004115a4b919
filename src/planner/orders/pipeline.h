// A pipeline as schedules see it: stages with times, the device of each, and micro-batches; what an
// order of its tasks takes in time, memory and staleness.
//
// A schedule is data: for every device the list of its tasks in the order in which it runs them,
// one at a time. orders.h has the rules that write such lists. Stages and micro-batches count from
// 0; times are in any one unit; transfers between stages take no time.
#pragma once

#include <compare>
#include <vector>

namespace ferry {

struct Pipeline {
  std::vector<double> forward;   // one micro-batch, by stage
  std::vector<double> backward;  // likewise; recompute included
  std::vector<int> device;       // by stage, any vector: several stages may share a device
  int devices = 1;
  int micro_batches = 1;

  int stages() const { return static_cast<int>(device.size()); }
  /// The number of stage visits between a stage and the loss; 0 for the last.
  int depth(int stage) const { return stages() - 1 - stage; }
};

/// Stage `stage`'s forward or backward of one micro-batch. A forward follows that of the stage
/// before, a backward that of the stage behind; the last stage's backward its forward.
struct PipelineTask {
  bool backward = false;
  int stage = 0;
  int micro_batch = 0;
  auto operator<=>(const PipelineTask&) const = default;
};

/// By device: its tasks in order.
using DeviceOrders = std::vector<std::vector<PipelineTask>>;

/// True when no device has more than one stage.
bool one_stage_per_device(const Pipeline& pipeline);

/// All tasks in one sequence that keeps every device's order and every dependency; devices take
/// turns. Shorter than the orders when these wait for each other for ever.
std::vector<PipelineTask> sequence_of(const Pipeline& pipeline, const DeviceOrders& orders);

/// When each task starts if each starts as early as its device's order and its input allow.
struct PipelineTimes {
  std::vector<std::vector<double>> forward;   // [stage][micro-batch]
  std::vector<std::vector<double>> backward;  // likewise
  double makespan = 0;                        // the last end; the first start is 0
};

/// Requires: the orders do not wait for each other for ever.
PipelineTimes earliest_times(const Pipeline& pipeline, const DeviceOrders& orders);

/// The share of the devices' time in which they compute: M sum(f + b) / (devices * makespan).
double efficiency(const Pipeline& pipeline, double makespan);

/// By stage: the most micro-batches at one time between the start of their forward and the end of
/// their backward, which is the number of inputs that the stage holds. Exact whatever the times: a
/// stage's device runs one task at a time.
std::vector<int> stages_in_flight(const Pipeline& pipeline, const DeviceOrders& orders);

/// By device: likewise over all of its stages.
std::vector<int> devices_in_flight(const Pipeline& pipeline, const DeviceOrders& orders);

struct Staleness {
  int least = 0;
  int most = 0;
  double mean = 0;
};

/// The steady state of a stage that forwards micro-batch i when backwards 0 .. i - depth - 1 are
/// done, over `accumulate` consecutive micro-batches: floor(i / M) - floor((i - d) / M).
Staleness steady_staleness(int depth, int accumulate);

// Closed forms for equal stages without transfers; M micro-batches, P devices.

/// GPipe and synchronous 1F1B: M / (M + P - 1).
double pipeline_efficiency(int micro_batches, int devices);
/// Interleaved, `chunks` stages per device: M / (M + (P - 1) / v).
double interleaved_efficiency(int micro_batches, int devices, int chunks);

}  // namespace ferry
