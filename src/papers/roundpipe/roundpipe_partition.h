// RoundPipe's partition: the t_max sweep with asymmetric stages and the fused first backward stage
// (RoundPipe section 4.4).
//
// Forward and backward are cut differently. The layers nearest the loss run forward and backward in
// one visit, whose forward is their recomputation. Units of time and bytes are the caller's.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "planner/costs/direction.h"

namespace ferry {

struct RoundPipeLayer {
  double forward = 0;         // one micro-batch
  double backward = 0;        // likewise, recompute included
  double forward_bytes = 0;   // on the device in forward: weights
  double backward_bytes = 0;  // in backward: weights and gradients
};

/// One visit of consecutive layers: forward, then fused, then backward in order of dispatch.
struct RoundPipeStage {
  Direction direction = Direction::forward;
  int first = 0;    // layer
  int end = 0;      // one past the last
  double time = 0;  // one micro-batch
  bool operator==(const RoundPipeStage&) const = default;
};

struct RoundPipePartition {
  double t_max = 0;
  std::vector<RoundPipeStage> stages;  // in order of dispatch
  double cost = 0;
};

enum class RoundPipeCost {
  printed,  // (M S + N (N - 1)) t_max: a step on its own
  steady,   // S t_max: steps that follow each other without a flush
};

struct RoundPipeProblem {
  int devices = 1;                                          // N
  int micro_batches = 1;                                    // M
  double memory = std::numeric_limits<double>::infinity();  // of one stage
  RoundPipeCost cost = RoundPipeCost::printed;
};

/// Tries every contiguous sum of forward or of backward times as t_max. Each packs the layers into
/// the fewest stages no longer than it and within the memory: the fused stage from the last layer
/// down, then forward stages over the rest from its end, and backward stages from its start. Best
/// first by cost, ties to the smaller t_max, distinct stages, at most `keep`; empty when a layer
/// does not fit. O(L^3). Requires: layers, and keep > 0.
std::vector<RoundPipePartition> roundpipe_partitions(const RoundPipeProblem& problem,
                                                     const std::vector<RoundPipeLayer>& layers,
                                                     int keep = 1);

/// The same numbers of stages, cut as evenly as can be in each pass. Nothing when memory forbids.
std::optional<RoundPipePartition> evened(const RoundPipePartition& partition,
                                         const std::vector<RoundPipeLayer>& layers, double memory);

}  // namespace ferry
