// Block graphs for the planner's tests: chains by their weights, random DAGs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/mixed/block_graph.h"
#include "planner/mixed/mixed_load.h"
#include "planner/mixed/mixed_stages.h"

namespace ferry {

/// GPUs of one kind: a budget each, links without limit.
MixedMachine equal_gpus(int gpus, Bytes budget);

/// Blocks of these times without tensors, of one kind.
BlockGraph weighted_blocks(const std::vector<double>& seconds, int gpus);

GraphTensor tensor_of(BlockId producer, std::vector<BlockId> consumers, Bytes forward,
                      Bytes gradient);

/// A chain: block b passes `bytes` forward to b + 1 and as many back.
BlockGraph chain_of(const std::vector<double>& seconds, int gpus, Bytes bytes);

/// Any DAG of up to `most` blocks with hyper-edges, ties, runs and roles, and any machine for it.
struct RandomJob {
  BlockGraph graph;
  MixedMachine machine;
  LoadRules rules;
};
RandomJob random_job(std::uint64_t seed, int most);

/// Whether every stage reads from earlier ones only.
bool in_topological_order(const StageBuilder& builder, const MixedStages& stages);

/// Every block an item of its own.
Items single_items(const BlockGraph& graph);

}  // namespace ferry
