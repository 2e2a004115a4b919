// Block graphs for the planner's tests: chains by their weights, the T5 fixture, random DAGs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/block_graph.h"
#include "planner/mixed_load.h"

namespace ferry {

/// GPUs of one kind: a budget each, links without limit.
MixedMachine equal_gpus(int gpus, Bytes budget);

/// Blocks of these times without tensors, of one kind.
BlockGraph weighted_blocks(const std::vector<double>& seconds, int gpus);

GraphTensor tensor_of(int producer, std::vector<int> consumers, Bytes forward, Bytes gradient);

/// A chain: block b passes `bytes` forward to b + 1 and as many back.
BlockGraph chain_of(const std::vector<double>& seconds, int gpus, Bytes bytes);

/// FTPipe page, section 1: 24 encoder layers of compute 1 and 50,333,696 parameters, 24 decoder
/// layers of compute 0.35 and 67,111,936. A weight counts one byte per parameter. A chain of hidden
/// states of `hidden` bytes; the last encoder layer's output goes to every decoder layer.
BlockGraph t5_fixture(int gpus, Bytes hidden);

/// Any DAG of up to `most` blocks with hyper-edges, ties, runs and roles, and any machine for it.
struct RandomJob {
  BlockGraph graph;
  MixedMachine machine;
  LoadRules rules;
};
RandomJob random_job(std::uint64_t seed, int most);

/// Every block an item of its own.
Items single_items(const BlockGraph& graph);

}  // namespace ferry
