// Tensors that are cheaper made again at their consumers than sent.
#pragma once

#include <vector>

#include "planner/mixed/block_graph.h"
#include "planner/mixed/mixed_stages.h"

namespace ferry {

/// One flag per tensor: `recompute_seconds < beta / bw` with the slowest rate of any GPU's link, so
/// the producer is run again in every consuming stage and the tensor crosses no border.
std::vector<char> rematerialised_tensors(const BlockGraph& graph, const MixedMachine& machine);

/// Seconds per micro-batch that each GPU spends making tensors again: once per consuming stage
/// other than the producer's.
IdVector<GpuId, double> recompute_seconds(const BlockGraph& graph,
                                          const std::vector<char>& rematerialised,
                                          const MixedStages& stages, int gpus);

}  // namespace ferry
