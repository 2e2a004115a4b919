#include "planner/mixed/skip_tensors.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <set>

#include "base/check.h"

namespace ferry {
namespace {

// The stages other than the producer's that read the tensor, ascending.
std::set<MixedStageId> reading_stages(const GraphTensor& tensor,
                                      const IdVector<BlockId, MixedStageId>& stage_of) {
  std::set<MixedStageId> stages;
  for (const BlockId consumer : tensor.consumers) stages.insert(stage_of[consumer]);
  stages.erase(stage_of[tensor.producer]);
  return stages;
}

}  // namespace

FanOut fan_out(const BlockGraph& graph, std::size_t tensor, const MixedStages& stages) {
  const GraphTensor& sent = graph.tensors[tensor];
  const auto stage_of = stage_of_block(stages, graph.blocks.size());
  const MixedStageId producer = stage_of[sent.producer];
  FanOut result;
  result.fine_edges = static_cast<int>(std::ranges::count_if(
      sent.consumers, [&](BlockId consumer) { return stage_of[consumer] != producer; }));
  const std::set<MixedStageId> readers = reading_stages(sent, stage_of);
  std::set<GpuId> gpus;
  for (const MixedStageId stage : readers) gpus.insert(stages[stage].gpu);
  gpus.erase(stages[producer].gpu);
  result.direct = static_cast<int>(readers.size());
  result.relay = static_cast<int>(readers.size());
  result.destination_gpus = static_cast<int>(gpus.size());
  return result;
}

int link_crossings(SkipRoute route, int transfers, bool peer_to_peer) {
  if (transfers == 0) return 0;
  if (route == SkipRoute::staged) return transfers + 1;
  return peer_to_peer ? transfers : 2 * transfers;
}

std::vector<char> rematerialised_tensors(const BlockGraph& graph, const MixedMachine& machine) {
  double rate = std::numeric_limits<double>::infinity();
  for (const MixedGpu& gpu : machine.gpus) rate = std::min({rate, gpu.in_rate, gpu.out_rate});
  std::vector<char> flags;
  for (const GraphTensor& tensor : graph.tensors) {
    const double transfer = static_cast<double>(tensor.forward.count) / rate;
    flags.push_back(tensor.recompute_seconds < transfer ? 1 : 0);
  }
  return flags;
}

IdVector<GpuId, double> recompute_seconds(const BlockGraph& graph,
                                          const std::vector<char>& rematerialised,
                                          const MixedStages& stages, int gpus) {
  IdVector<GpuId, double> seconds(gpus, 0.0);
  const auto stage_of = stage_of_block(stages, graph.blocks.size());
  for (std::size_t t = 0; t < rematerialised.size(); ++t) {
    if (rematerialised[t] == 0) continue;
    for (const MixedStageId stage : reading_stages(graph.tensors[t], stage_of)) {
      seconds[stages[stage].gpu] += graph.tensors[t].recompute_seconds;
    }
  }
  return seconds;
}

Bytes replica_step_bytes(const TiedWeight& tied, int uses) {
  FERRY_CHECK(uses >= 1, "a weight has a use");
  return (uses - 1) * (tied.weight + tied.gradient);
}

Bytes travelling_step_bytes(const TiedWeight& tied, int uses, int micro_batches) {
  return micro_batches * replica_step_bytes(tied, uses);
}

}  // namespace ferry
