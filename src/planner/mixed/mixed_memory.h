// Memory of a set of stages on each GPU, by what the schedule keeps in flight. It steers the
// search; allocation and verify() have the last word.
#pragma once

#include <functional>
#include <vector>

#include "planner/mixed/block_graph.h"
#include "planner/mixed/mixed_load.h"
#include "planner/mixed/mixed_stages.h"

namespace ferry {

/// What one stage holds beside its weights.
struct StageHolds {
  int inflight = 1;        // micro-batches between their forward and the end of their backward
  int versions = 0;        // stashed copies of W
  bool offloaded = false;  // saved inputs leave the GPU
};

/// The schedule's answer for all stages of a candidate, in their order.
using StagesHold = IdVector<MixedStageId, StageHolds>;
using HoldsRule = std::function<StagesHold(const MixedStages&)>;

/// Synchronous 1F1B: min(M, d + 1).
HoldsRule holds_1f1b(int micro_batches);

/// A graph, a machine and what stays on its GPUs: everything that memory follows from.
struct MemoryModel {
  const BlockGraph& graph;
  const MixedMachine& machine;
  const LoadRules& rules;
  const std::vector<char>& rematerialised;  // per tensor, or empty
};

/// M(g) of every GPU: context, double-buffered transfers, saved stage inputs, resident W, G and S
/// with one replica of a tied weight per GPU, stashed versions, streamed buffers, and the largest
/// peak of any stage, since a GPU computes one task at a time. Requires: one StageHolds per stage.
GpuBytes stage_memory(const MemoryModel& model, const MixedStages& stages, const StagesHold& holds);

}  // namespace ferry
