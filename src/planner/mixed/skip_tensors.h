// Tensors that are not just passed to the next stage: what a fan-out costs by each way of sending
// it, which tensors are cheaper made again than sent, and what a tied weight costs per step.
#pragma once

#include <cstddef>
#include <vector>

#include "planner/mixed/block_graph.h"
#include "planner/mixed/mixed_stages.h"

namespace ferry {

/// Transfers of one tensor per micro-batch, by four ways of counting.
struct FanOut {
  int fine_edges = 0;        // FTPipe's cost model: one per consumer in another stage
  int direct = 0;            // one per consuming stage other than the producer's
  int relay = 0;             // hops along the consuming stages in order, each handing on
  int destination_gpus = 0;  // ferry: one per GPU that consumes and has it not yet
};

/// Requires: a valid tensor index; every block in one stage.
FanOut fan_out(const BlockGraph& graph, std::size_t tensor, const MixedStages& stages);

enum class SkipRoute { direct, relay, staged };

/// Crossings of GPU links by a tensor with `transfers` transfers: without peer-to-peer every hop of
/// direct and relay is two; staged in host memory it is written once and read `transfers` times.
int link_crossings(SkipRoute route, int transfers, bool peer_to_peer);

/// One flag per tensor: `recompute_seconds < beta / bw` with the slowest rate of any GPU's link, so
/// the producer is run again in every consuming stage and the tensor crosses no border.
std::vector<char> rematerialised_tensors(const BlockGraph& graph, const MixedMachine& machine);

/// Seconds per micro-batch that each GPU spends making tensors again: once per consuming stage
/// other than the producer's.
IdVector<GpuId, double> recompute_seconds(const BlockGraph& graph,
                                          const std::vector<char>& rematerialised,
                                          const MixedStages& stages, int gpus);

/// Bytes per step of a weight with `uses` uses on different GPUs: replicas summed once per step on
/// the host, one gradient down and one weight up each; or FTPipe's way, the weight as an activation
/// and its gradient back, to every use but the owner's, with every micro-batch.
Bytes replica_step_bytes(const TiedWeight& tied, int uses);
Bytes travelling_step_bytes(const TiedWeight& tied, int uses, int micro_batches);

}  // namespace ferry
