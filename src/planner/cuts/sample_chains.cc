#include "planner/cuts/sample_chains.h"

#include <random>

#include "base/check.h"

namespace ferry {

std::vector<BlockCosts> six_layers() {
  std::vector<BlockCosts> layers;
  for (int i = 0; i < 6; ++i) {
    const double forward = i == 5 ? 2 : 1;
    const double weights = i == 5 ? 3 : 2;
    BlockCosts layer;
    layer.forward_time = forward;
    layer.backward_time = 3 * forward;
    layer.forward_upload = layer.backward_upload = weights;
    layer.forward_memory = weights + 0.5;
    layer.backward_memory = weights + 1.5;
    layer.activation = 0.2;
    layer.activation_gradient = i == 0 ? 0 : 0.2;
    layers.push_back(layer);
  }
  return layers;
}

EvaluatorProblem flat_problem(int devices, int micro_batches, double memory, double bandwidth) {
  EvaluatorProblem result;
  result.devices = devices;
  result.micro_batches = micro_batches;
  result.memory = memory;
  result.bandwidth = bandwidth;
  return result;
}

SampleChain uneven_chain(std::uint64_t seed, std::size_t blocks, SampleCosts costs) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> any(0.1, 4);
  SampleChain result;
  for (std::size_t b = 0; b < blocks; ++b) {
    BlockCosts block;
    block.forward_time = any(random);
    block.backward_time = 3 * any(random);
    block.forward_upload = block.backward_upload = any(random);
    block.forward_memory = block.forward_upload + any(random) / 4;
    block.backward_memory = block.forward_memory + any(random);
    block.activation = any(random) / 8;
    block.activation_gradient = any(random) / 8;
    block.gradient_download = any(random);
    block.update_time = any(random) / 4;
    result.blocks.push_back(block);
  }
  result.problem =
      flat_problem(1 + static_cast<int>(random() % 4), 1 + static_cast<int>(random() % 4),
                   6 + 4 * any(random), any(random));
  const bool real =
      costs == SampleCosts::real || (costs == SampleCosts::either && random() % 2 == 0);
  if (real) {
    const bool downloads = random() % 4 != 0;
    const bool updates = random() % 4 != 0;
    result.problem.switches = {random() % 4 != 0, downloads, updates, random() % 2 == 0,
                               random() % 2 == 0 ? any(random) / 16 : 0};
  }
  return result;
}

SampleChain repeated_chain(std::uint64_t seed, std::size_t blocks) {
  SampleChain result = uneven_chain(seed, blocks, SampleCosts::either);
  std::mt19937_64 random(seed);
  for (std::size_t b = 1; b < blocks; ++b) {
    if (random() % 4 != 0) result.blocks[b] = result.blocks[b - 1];
  }
  return result;
}

SampleChain equal_layers(int layers, int devices, int micro_batches) {
  const auto block = [](double forward, double weights, double inner) {
    BlockCosts costs;
    costs.forward_time = forward;
    costs.backward_time = 3 * forward;
    costs.forward_upload = costs.backward_upload = weights;
    costs.forward_memory = weights + inner;
    costs.backward_memory = 2 * weights + 4 * inner;
    costs.activation = costs.activation_gradient = 0.02;
    costs.gradient_download = weights;
    costs.update_time = weights / 20;
    return costs;
  };
  SampleChain result;
  result.problem = flat_problem(devices, micro_batches, 22, 13);
  result.blocks.push_back(block(0.002, 0.6, 0.05));
  for (int i = 0; i < layers; ++i) result.blocks.push_back(block(0.04, 0.9, 0.3));
  result.blocks.push_back(block(0.03, 0.6, 0.5));
  return result;
}

// By the bits of a number: bit b cuts after block b.
std::vector<Partition> all_partitions(const EvaluatorProblem& problem,
                                      const std::vector<BlockCosts>& blocks) {
  FERRY_CHECK(!blocks.empty() && blocks.size() <= 20, "brute force is for short chains");
  std::vector<Partition> result;
  const int count = static_cast<int>(blocks.size());
  for (unsigned cuts = 0; cuts < (1U << (count - 1)); ++cuts) {
    Partition partition;
    for (int b = 0; b + 1 < count; ++b) {
      if ((cuts >> b) & 1U) partition.ends.push_back(b + 1);
    }
    partition.ends.push_back(count);
    const auto schedule = evaluate_stages(problem, stages_of(blocks, partition.ends));
    if (!schedule.feasible) continue;
    partition.step = schedule.step;
    result.push_back(std::move(partition));
  }
  return result;
}

}  // namespace ferry
