#include "planner/mixed/block_graph.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/check.h"

namespace ferry {
namespace {

void check_block(const GraphBlock& block, std::size_t gpus) {
  FERRY_CHECK(block.seconds.size() == gpus, block.name + ": one time per GPU is needed");
  for (const double seconds : block.seconds) {
    FERRY_CHECK(std::isfinite(seconds) && seconds >= 0, block.name + ": a time is negative");
  }
  for (const Bytes bytes : {block.weight, block.gradient, block.state, block.saved, block.peak,
                            block.step_up, block.step_down}) {
    FERRY_CHECK(bytes >= 0_B, block.name + ": a size is negative");
  }
}

template <typename IdType, typename T>
void check_later(const std::vector<IdType>& ids, IdType first, const IdVector<IdType, T>& all,
                 const std::string& name) {
  IdType before = first;
  for (const IdType id : ids) {
    FERRY_CHECK(id > before && all.has(id), name + ": its members are not in ascending order");
    before = id;
  }
}

}  // namespace

void check_block_graph(const BlockGraph& graph, const MixedMachine& machine) {
  FERRY_CHECK(graph.size() > 0, "a graph has at least one block");
  FERRY_CHECK(machine.size() > 0, "a machine has at least one GPU");
  for (const GraphBlock& block : graph.blocks) check_block(block, machine.gpus.size());
  for (const GraphTensor& tensor : graph.tensors) {
    FERRY_CHECK(graph.blocks.has(tensor.producer), tensor.name + ": no such producer");
    check_later(tensor.consumers, tensor.producer, graph.blocks, tensor.name);
    FERRY_CHECK(tensor.forward >= 0_B && tensor.gradient >= 0_B && tensor.recompute_weight >= 0_B &&
                    tensor.recompute_seconds >= 0,
                tensor.name + ": an amount is negative");
  }
  for (const TiedWeight& tied : graph.tied) {
    FERRY_CHECK(graph.blocks.has(tied.owner), "a tied weight has no owner");
    check_later(tied.readers, {}, graph.blocks, "a tied weight");
    FERRY_CHECK(!std::ranges::binary_search(tied.readers, tied.owner),
                "the owner of a tied weight is no reader");
  }
  for (const MixedGpu& gpu : machine.gpus) {
    FERRY_CHECK(gpu.in_rate > 0 && gpu.out_rate > 0, gpu.name + ": a rate is not positive");
  }
  for (const SharedLink& link : machine.links) {
    check_later(link.gpus, {}, machine.gpus, link.name);
    FERRY_CHECK(link.in_rate > 0 && link.out_rate > 0, link.name + ": a rate is not positive");
  }
}

IdVector<BlockId, std::vector<BlockId>> predecessors(const BlockGraph& graph) {
  IdVector<BlockId, std::vector<BlockId>> result(graph.blocks.size());
  for (const GraphTensor& tensor : graph.tensors) {
    for (const BlockId consumer : tensor.consumers) result[consumer].push_back(tensor.producer);
  }
  for (std::vector<BlockId>& blocks : result) {
    std::ranges::sort(blocks);
    const auto rest = std::ranges::unique(blocks);
    blocks.erase(rest.begin(), rest.end());
  }
  return result;
}

Items protected_runs(const BlockGraph& graph) {
  Items runs;
  int before = -1;
  for (const BlockId b : graph.blocks.ids()) {
    const int run = graph.blocks[b].run;
    if (run < 0 || run != before) runs.emplace_back();
    runs.back().push_back(b);
    before = run;
  }
  return runs;
}

double least_seconds(const BlockGraph& graph, BlockId block) {
  return std::ranges::min(graph.blocks[block].seconds);
}

}  // namespace ferry
