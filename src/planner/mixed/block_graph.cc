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

void check_later(const std::vector<int>& blocks, int first, int size, const std::string& name) {
  int before = first;
  for (const int block : blocks) {
    FERRY_CHECK(block > before && block < size, name + ": its blocks are not in ascending order");
    before = block;
  }
}

}  // namespace

void check_block_graph(const BlockGraph& graph, const MixedMachine& machine) {
  FERRY_CHECK(graph.size() > 0, "a graph has at least one block");
  FERRY_CHECK(machine.size() > 0, "a machine has at least one GPU");
  for (const GraphBlock& block : graph.blocks) check_block(block, machine.gpus.size());
  for (const GraphTensor& tensor : graph.tensors) {
    FERRY_CHECK(tensor.producer >= 0 && tensor.producer < graph.size(),
                tensor.name + ": no such producer");
    check_later(tensor.consumers, tensor.producer, graph.size(), tensor.name);
    FERRY_CHECK(tensor.forward >= 0_B && tensor.gradient >= 0_B && tensor.recompute_weight >= 0_B &&
                    tensor.recompute_seconds >= 0,
                tensor.name + ": an amount is negative");
  }
  for (const TiedWeight& tied : graph.tied) {
    FERRY_CHECK(tied.owner >= 0 && tied.owner < graph.size(), "a tied weight has no owner");
    check_later(tied.readers, -1, graph.size(), "a tied weight");
    FERRY_CHECK(!std::ranges::binary_search(tied.readers, tied.owner),
                "the owner of a tied weight is no reader");
  }
  for (const MixedGpu& gpu : machine.gpus) {
    FERRY_CHECK(gpu.in_rate > 0 && gpu.out_rate > 0, gpu.name + ": a rate is not positive");
  }
  for (const SharedLink& link : machine.links) {
    check_later(link.gpus, -1, machine.size(), link.name);
    FERRY_CHECK(link.in_rate > 0 && link.out_rate > 0, link.name + ": a rate is not positive");
  }
}

std::vector<std::vector<int>> predecessors(const BlockGraph& graph) {
  std::vector<std::vector<int>> result(graph.blocks.size());
  for (const GraphTensor& tensor : graph.tensors) {
    for (const int consumer : tensor.consumers) {
      result[static_cast<std::size_t>(consumer)].push_back(tensor.producer);
    }
  }
  for (std::vector<int>& blocks : result) {
    std::ranges::sort(blocks);
    const auto rest = std::ranges::unique(blocks);
    blocks.erase(rest.begin(), rest.end());
  }
  return result;
}

std::vector<std::vector<int>> protected_runs(const BlockGraph& graph) {
  std::vector<std::vector<int>> runs;
  for (int b = 0; b < graph.size(); ++b) {
    const int run = graph.blocks[static_cast<std::size_t>(b)].run;
    const bool joins =
        b > 0 && run >= 0 && graph.blocks[static_cast<std::size_t>(b) - 1].run == run;
    if (!joins) runs.emplace_back();
    runs.back().push_back(b);
  }
  return runs;
}

double least_seconds(const BlockGraph& graph, int block) {
  return std::ranges::min(graph.blocks[static_cast<std::size_t>(block)].seconds);
}

}  // namespace ferry
