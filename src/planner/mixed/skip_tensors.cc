#include "planner/mixed/skip_tensors.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <set>

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

}  // namespace ferry
