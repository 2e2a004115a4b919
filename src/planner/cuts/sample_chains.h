// Chains and questions for the tests of partitioners, and brute force over all their partitions.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/cuts/partition.h"

namespace ferry {

struct SampleChain {
  EvaluatorProblem problem;
  std::vector<BlockCosts> blocks;
};

/// The six layers of the partitioner's test vectors: weights, inner activations and times; 0.2
/// passes between layers.
std::vector<BlockCosts> six_layers();

/// A question with all switches off.
EvaluatorProblem flat_problem(int devices, int micro_batches, double memory, double bandwidth);

enum class SampleCosts {
  as_printed,  // switches off
  real,        // first loads, downloads, updates and overhead
  either       // by the seed
};

/// Blocks of random, different costs on 1 to 4 devices; memory and bandwidth bind in some.
SampleChain uneven_chain(std::uint64_t seed, std::size_t blocks, SampleCosts costs);

/// The same with runs of equal blocks.
SampleChain repeated_chain(std::uint64_t seed, std::size_t blocks);

/// An embedding, so many equal layers and a head, in the proportions of a 15B model on 24 GB
/// devices with 13 GB/s; seconds and GB.
SampleChain equal_layers(int layers, int devices, int micro_batches);

/// Every feasible contiguous partition with its step. Requires: at most 20 blocks.
std::vector<Partition> all_partitions(const EvaluatorProblem& problem,
                                      const std::vector<BlockCosts>& blocks);

}  // namespace ferry
