#include "papers/ftpipe/t5_fixture.h"

#include <cstddef>
#include <string>
#include <utility>

namespace ferry {
namespace {

constexpr int kEncoder = 24;
constexpr int kLayers = 48;

}  // namespace

BlockGraph t5_fixture(int gpus, Bytes hidden) {
  BlockGraph graph;
  for (int b = 0; b < kLayers; ++b) {
    const bool encoder = b < kEncoder;
    GraphBlock block;
    block.name = "b" + std::to_string(b);
    block.kind = encoder ? "encoder" : "decoder";
    block.seconds.assign(gpus, encoder ? 1.0 : 0.35);
    block.weight = encoder ? 50'333'696_B : 67'111'936_B;
    graph.blocks.push_back(std::move(block));
    if (b + 1 == kLayers) break;
    GraphTensor tensor;
    tensor.name = "t" + std::to_string(b);
    tensor.producer = BlockId(b);
    tensor.consumers = {BlockId(b + 1)};
    tensor.forward = tensor.gradient = hidden;
    graph.tensors.push_back(std::move(tensor));
  }
  std::vector<BlockId>& readers = graph.tensors[kEncoder - 1].consumers;
  for (int b = kEncoder + 1; b < kLayers; ++b) readers.push_back(BlockId(b));
  return graph;
}

Pipeline t5_pipeline(const std::vector<int>& blocks, std::vector<int> map, double decoder,
                     int micro_batches) {
  Pipeline pipeline;
  pipeline.devices = 8;
  pipeline.micro_batches = micro_batches;
  pipeline.device = std::move(map);
  int block = 0;
  for (const int count : blocks) {
    double forward = 0;
    for (int i = 0; i < count; ++i) forward += block++ < kEncoder ? 20 : decoder;
    pipeline.forward.push_back(forward);
    pipeline.backward.push_back(3 * forward);
  }
  return pipeline;
}

}  // namespace ferry
