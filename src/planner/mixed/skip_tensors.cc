#include "planner/mixed/skip_tensors.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <set>

namespace ferry {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// The stages other than the producer's that read the tensor, ascending.
std::set<int> reading_stages(const GraphTensor& tensor, const std::vector<int>& stage_of) {
  std::set<int> stages;
  for (const int consumer : tensor.consumers) stages.insert(stage_of[at(consumer)]);
  stages.erase(stage_of[at(tensor.producer)]);
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

std::vector<double> recompute_seconds(const BlockGraph& graph,
                                      const std::vector<char>& rematerialised,
                                      const std::vector<MixedStage>& stages, int gpus) {
  std::vector<double> seconds(at(gpus), 0.0);
  const std::vector<int> stage_of = stage_of_block(stages, graph.size());
  for (std::size_t t = 0; t < rematerialised.size(); ++t) {
    if (rematerialised[t] == 0) continue;
    for (const int stage : reading_stages(graph.tensors[t], stage_of)) {
      seconds[at(stages[at(stage)].gpu)] += graph.tensors[t].recompute_seconds;
    }
  }
  return seconds;
}

}  // namespace ferry
