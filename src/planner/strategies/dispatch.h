// Lists of visits (stream_schedule.h) of the strategies that give stages to devices in turn, or to
// every device.
#pragma once

#include <vector>

#include "planner/write/stream_schedule.h"

namespace ferry {

/// Cuts of the two passes, each as one past the last block of every stage. The last backward stage
/// runs forward too, fused, so `forward` covers the blocks before it: empty when it is the only
/// one.
struct Packs {
  std::vector<int> forward;
  std::vector<int> backward;

  bool operator==(const Packs&) const = default;
};

/// Stages in turn on `devices` devices, backward going on where forward stopped; the micro-batches
/// in rounds of at most `round` (Harmony's pipeline mode: one round; RoundPipe, section 3.2). When
/// `train` is false, forward alone.
std::vector<StageVisit> dispatch(const Packs& packs, int devices, int micro_batches, int round,
                                 bool train);

/// Every device runs all stages on its share of the micro-batches (Harmony's data-parallel mode).
std::vector<StageVisit> replicate(const Packs& packs, int devices, int micro_batches, bool train);

/// Every device takes one micro-batch at a time through all stages (ZeRO-3: weights are gathered
/// anew for every micro-batch and pass).
std::vector<StageVisit> horizontal(const std::vector<int>& ends, int devices, int micro_batches,
                                   bool train);

}  // namespace ferry
