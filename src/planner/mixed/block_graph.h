// A model's blocks as a graph, for planners that may place any block on any GPU: what each block
// costs on each GPU, and the tensors that pass between blocks.
//
// A tensor is a hyper-edge: one producer, any number of consumers, and it is counted once per
// destination, never per consumer. Blocks stand in topological order: a producer's index is less
// than its consumers'. Times are seconds of one micro-batch.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "spec/block_id.h"

namespace ferry {

using GpuId = Id<struct GpuTag>;    // an index of MixedMachine::gpus
using ItemId = Id<struct ItemTag>;  // of blocks that are kept together: an index of Items

/// Blocks that go to one GPU together.
using Items = IdVector<ItemId, std::vector<BlockId>>;

enum class BlockRole {
  body,
  opening,  // an embedding: alone in its group, or with the blocks after it
  closing,  // a loss head: alone in its group, or with the blocks before it
};

struct GraphBlock {
  std::string name;
  std::string kind;  // consecutive blocks of one kind form a class: "encoder", "decoder"
  BlockRole role = BlockRole::body;
  int run = -1;  // consecutive blocks with one number >= 0 are protected: never parted
  IdVector<GpuId, double> seconds;  // w[b, g], one per GPU: forward + backward as run
  Bytes weight;                     // W; of a tied reader: without the weight that it shares
  Bytes gradient;                   // G
  Bytes state;                      // S, optimizer state
  Bytes saved;                      // kept from the recompute to the backward of the block's stage
  Bytes peak;       // live while the block's own forward or backward runs, beside what is saved
  Bytes step_up;    // to the GPU once per step, wherever the block is: new or streamed weights
  Bytes step_down;  // from the GPU once per step: gradients
};

struct GraphTensor {
  std::string name;
  BlockId producer;
  std::vector<BlockId> consumers;  // ascending, each after the producer
  Bytes forward;                   // beta
  Bytes gradient;                  // gamma; 0 when no gradient flows
  /// Of running the producer again at a consumer; infinite when that is impossible.
  double recompute_seconds = std::numeric_limits<double>::infinity();
  Bytes recompute_weight;  // what the second producer has to hold: a table's replica
};

/// A weight that several blocks read. Its owner's `weight`, `gradient` and `state` include it.
struct TiedWeight {
  BlockId owner;
  std::vector<BlockId> readers;  // ascending, without the owner
  Bytes weight;
  Bytes gradient;
};

struct BlockGraph {
  IdVector<BlockId, GraphBlock> blocks;
  std::vector<GraphTensor> tensors;
  std::vector<TiedWeight> tied;

  int size() const { return static_cast<int>(blocks.size()); }
};

struct MixedGpu {
  std::string name;
  Bytes budget;   // M_g
  Bytes context;  // taken from the start: the driver's context, workspaces of libraries
  double in_rate = std::numeric_limits<double>::infinity();  // bytes per second
  double out_rate = std::numeric_limits<double>::infinity();
};

/// A link above several GPUs: a switch's uplink, a root complex.
struct SharedLink {
  std::string name;
  std::vector<GpuId> gpus;  // ascending
  double in_rate = std::numeric_limits<double>::infinity();
  double out_rate = std::numeric_limits<double>::infinity();
};

struct MixedMachine {
  IdVector<GpuId, MixedGpu> gpus;
  std::vector<SharedLink> links;
  bool peer_to_peer = false;  // false: a tensor is staged once in host memory and read from there

  int size() const { return static_cast<int>(gpus.size()); }
};

/// Aborts unless graph and machine are as described above: at least one block and one GPU, indices
/// in range and in order, no negative amount, one time per GPU.
void check_block_graph(const BlockGraph& graph, const MixedMachine& machine);

/// The blocks that produce what each block reads: ascending, distinct.
IdVector<BlockId, std::vector<BlockId>> predecessors(const BlockGraph& graph);

/// The protected runs, in order: every block is in one, most are alone in theirs.
Items protected_runs(const BlockGraph& graph);

/// The least time of block `b` over the GPUs: its weight where no GPU is chosen yet.
double least_seconds(const BlockGraph& graph, BlockId block);

}  // namespace ferry
