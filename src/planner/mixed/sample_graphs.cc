#include "planner/mixed/sample_graphs.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "planner/mixed/splitmix.h"

namespace ferry {
namespace {

std::string numbered(std::string name, int number) { return name += std::to_string(number); }

std::string kind_of(int block, int blocks, SplitMix& random) {
  const int third = blocks / 3 + 1;
  return random.below(8) == 0 ? "odd" : numbered("kind", block / third);
}

void add_random_tensors(BlockGraph& graph, SplitMix& random) {
  const int blocks = graph.size();
  for (int b = 0; b + 1 < blocks; ++b) {
    if (random.below(6) == 0) continue;  // a block that nobody reads
    GraphTensor tensor;
    tensor.name = numbered("t", b);
    tensor.producer = b;
    for (int c = b + 1; c < blocks; ++c) {
      if (random.below(c == b + 1 ? 2 : 5) == 0) tensor.consumers.push_back(c);
    }
    if (tensor.consumers.empty()) tensor.consumers.push_back(b + 1);
    tensor.forward = Bytes{random.below(50)};
    tensor.gradient = Bytes{random.below(3) == 0 ? 0 : tensor.forward.count};
    if (random.below(10) == 0) {
      tensor.recompute_seconds = 1;
      tensor.recompute_weight = Bytes{random.below(4)};
    }
    graph.tensors.push_back(std::move(tensor));
  }
}

MixedMachine random_machine(SplitMix& random) {
  MixedMachine machine;
  const int gpus = 1 + random.below(4);
  const bool equal = random.below(2) == 0;
  const bool linked = random.below(3) != 0;
  const Bytes budget{200 + random.below(600)};
  const double rate = 5 + random.below(30);
  for (int g = 0; g < gpus; ++g) {
    MixedGpu gpu{numbered("gpu", g), budget, Bytes{random.below(10)}};
    if (!equal) gpu.budget += Bytes{random.below(200)};
    if (linked) gpu.in_rate = gpu.out_rate = equal ? rate : rate + random.below(10);
    machine.gpus.push_back(gpu);
  }
  if (equal) {
    for (MixedGpu& gpu : machine.gpus) gpu.context = machine.gpus.front().context;
  }
  if (linked && gpus > 1 && random.below(2) == 0) {
    machine.links.push_back({"root", {0, 1}, rate * 1.5, rate * 1.5});
  }
  machine.peer_to_peer = random.below(3) == 0;
  return machine;
}

}  // namespace

MixedMachine equal_gpus(int gpus, Bytes budget) {
  MixedMachine machine;
  for (int g = 0; g < gpus; ++g) {
    MixedGpu gpu;
    gpu.name = numbered("gpu", g);
    gpu.budget = budget;
    machine.gpus.push_back(gpu);
  }
  return machine;
}

BlockGraph weighted_blocks(const std::vector<double>& seconds, int gpus) {
  BlockGraph graph;
  for (std::size_t b = 0; b < seconds.size(); ++b) {
    GraphBlock block;
    block.name = numbered("b", static_cast<int>(b));
    block.kind = "layer";
    block.seconds.assign(gpus, seconds[b]);
    graph.blocks.push_back(block);
  }
  return graph;
}

GraphTensor tensor_of(BlockId producer, std::vector<BlockId> consumers, Bytes forward,
                      Bytes gradient) {
  GraphTensor tensor;
  tensor.name = numbered("t", producer.number());
  tensor.producer = producer;
  tensor.consumers = std::move(consumers);
  tensor.forward = forward;
  tensor.gradient = gradient;
  return tensor;
}

BlockGraph chain_of(const std::vector<double>& seconds, int gpus, Bytes bytes) {
  BlockGraph graph = weighted_blocks(seconds, gpus);
  for (int b = 0; b + 1 < graph.size(); ++b) {
    graph.tensors.push_back(tensor_of(b, {b + 1}, bytes, bytes));
  }
  return graph;
}

RandomJob random_job(std::uint64_t seed, int most) {
  SplitMix random(seed);
  RandomJob job;
  job.machine = random_machine(random);
  const int blocks = 1 + random.below(most);
  const bool equal = random.below(2) == 0;
  for (int b = 0; b < blocks; ++b) {
    GraphBlock block;
    block.name = numbered("b", b);
    block.kind = kind_of(b, blocks, random);
    if (b == 0 && random.below(2) == 0) block.role = BlockRole::opening;
    if (b > 0 && b + 1 == blocks && random.below(2) == 0) block.role = BlockRole::closing;
    if (random.below(3) == 0) block.run = b / 2;
    const int seconds = 1 + random.below(20);
    for (int g = 0; g < job.machine.size(); ++g) {
      block.seconds.push_back(equal ? seconds : seconds + random.below(10));
    }
    block.weight = Bytes{random.below(40)};
    block.gradient = block.weight;
    block.state = Bytes{random.below(60)};
    block.saved = Bytes{random.below(10)};
    block.peak = Bytes{random.below(20)};
    block.step_up = Bytes{random.below(20)};
    block.step_down = Bytes{random.below(20)};
    job.graph.blocks.push_back(std::move(block));
  }
  add_random_tensors(job.graph, random);
  if (blocks > 2 && random.below(2) == 0) {
    const Bytes weight = job.graph.blocks.front().weight;
    job.graph.tied.push_back({0, {blocks - 1}, weight, weight});
  }
  job.rules.micro_batches = 1 + random.below(6);
  job.rules.streamed_weights = random.below(4) == 0;
  job.rules.states_on_gpu = random.below(2) == 0;
  return job;
}

bool in_topological_order(const StageBuilder& builder, const MixedStages& stages) {
  const auto reads = builder.sources(stages);
  return std::ranges::all_of(stages.ids(), [&](MixedStageId s) {
    return std::ranges::all_of(reads[s], [&](MixedStageId source) { return source < s; });
  });
}

Items single_items(const BlockGraph& graph) {
  Items items;
  for (const BlockId b : graph.blocks.ids()) items.push_back({b});
  return items;
}

}  // namespace ferry
