// The question as the strategies see it: the chain of blocks with the bytes of their values, from
// spec/layout.h, and their times and workspaces, from the profile.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "planner/costs/question.h"
#include "spec/block_id.h"

namespace ferry {

/// For formulas.
inline double as_double(Bytes bytes) { return static_cast<double>(bytes.count); }

struct ChainBlock {
  BlockKind kind = BlockKind::embedding;
  bool trainable = true;  // has weights of its own
  bool fused = false;     // no forward task: the head when training
  BlockId reads_weight;   // tied head: the block whose weights it reads
  Bytes weights;          // W.b; 0 for a tied head
  Bytes states;           // S.b
  Bytes state_piece;      // what drives hold of it in one piece: all, or all pieces but the last
  Bytes gradients;        // G.b; of the weight it reads for a tied head
  Bytes rounded;          // R.b; 0: the step rounds no sums, or the block has no update
  Bytes forward_workspace;
  Bytes backward_workspace;
  Bytes saved;                     // K.b.m; 0: the block cannot keep it, or may not
  Bytes saving_workspace;          // of a forward that keeps it
  Bytes saved_backward_workspace;  // of a backward of such a forward
  Micros forward;                  // one micro-batch, task overhead included
  Micros backward;                 // with recompute
  Micros saving_forward;           // of a micro-batch that is kept
  Micros saved_backward;           // without recompute
  Micros host_update;              // U.b on the host
  Micros device_update;            // U.b on a device
  Bytes device_update_workspace;
};

struct Chain {
  IdVector<BlockId, ChainBlock> blocks;
  Bytes activation;  // A.b.m and dA.b.m alike
  Bytes tokens;      // X.m: ids and labels, int64 each

  std::size_t size() const { return blocks.size(); }
};

/// Throws UserError when the profile is not of the question's model or batch.
Chain make_chain(const PlanQuestion& question);

/// Whether a task of the block exists: the fused head has no forward, evaluation no backward.
inline bool has_forward(const ChainBlock& block) { return !block.fused; }

/// How many pieces S.b has on drives.
inline int state_pieces(const ChainBlock& block) {
  if (block.states == Bytes{}) return 0;
  return static_cast<int>((block.states.count - 1) / block.state_piece.count) + 1;
}

/// How plans number the p-th of them: -1 where S.b is whole.
inline int piece_number(const ChainBlock& block, int p) {
  return state_pieces(block) == 1 ? -1 : p;
}

/// Of a piece by its number.
inline Bytes piece_bytes(const ChainBlock& block, int piece) {
  return piece < 0 ? block.states
                   : std::min(block.state_piece, block.states - block.state_piece * piece);
}

/// Whether any S.b has several.
inline bool has_pieces(const Chain& chain) {
  return std::ranges::any_of(
      chain.blocks, [](const ChainBlock& block) { return block.state_piece < block.states; });
}

/// What comes down of a block's whole sum for the host's update.
inline Bytes landing_sum(const ChainBlock& block) {
  return block.rounded > Bytes{} ? block.rounded : block.gradients;
}

/// Backward at its fastest: without recompute where forward can keep what it made.
inline Micros least_backward(const ChainBlock& block) {
  return block.saved > Bytes{} ? std::min(block.backward, block.saved_backward) : block.backward;
}

/// The first blocks from which on a step may run backwards again (Plan::again_from).
struct AgainFrom {
  int least;
  int most;
};
/// It runs none again.
inline constexpr AgainFrom kOnce = {std::numeric_limits<int>::max(),
                                    std::numeric_limits<int>::max()};

/// All backwards of a micro-batch through the block, likewise: nothing that is kept serves two.
inline Micros least_backwards(const Chain& chain, BlockId block, const AgainFrom& again) {
  const ChainBlock& costs = chain.blocks[block];
  return block.number() >= again.most ? costs.backward * 2 : least_backward(costs);
}

/// What its backward allocates at least, likewise.
inline Bytes least_backward_workspace(const ChainBlock& block) {
  return block.saved > Bytes{} ? std::min(block.backward_workspace, block.saved_backward_workspace)
                               : block.backward_workspace;
}

/// The block whose weights the block's tasks read: its own index, or the tied one.
inline BlockId weight_owner(const Chain& chain, BlockId block) {
  const BlockId reads = chain.blocks[block].reads_weight;
  return reads.valid() ? reads : block;
}

/// The tied head whose gradient the block's last backward adds to its own, or -1.
inline int tied_head(const Chain& chain, int block) {
  const int head = static_cast<int>(chain.size()) - 1;
  return head > 0 && chain.blocks.back().reads_weight == block ? head : -1;
}

/// Parameters per second of the CPU optimizer: the profile's, the machine's, or an estimate.
double update_rate(const PlanQuestion& question);

}  // namespace ferry
