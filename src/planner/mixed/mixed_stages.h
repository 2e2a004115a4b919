// Turns an assignment of blocks into stages: the blocks of one GPU that run as one (FTPipe, USENIX
// ATC 2021). The graph of stages never has a cycle.
#pragma once

#include <cstddef>
#include <vector>

#include "planner/mixed/block_graph.h"

namespace ferry {

using MixedStageId = Id<struct MixedStageTag>;

/// A GPU may have any number of stages, and neighbours need not be on neighbouring GPUs.
struct MixedStage {
  GpuId gpu;
  std::vector<BlockId> blocks;  // ascending
  int depth = 0;  // d(s): stage visits between it and the end of the longest path from it
};

using MixedStages = IdVector<MixedStageId, MixedStage>;

/// Where blocks are. Blocks of one bin may share a stage; a bin's blocks are on one GPU.
struct Placement {
  IdVector<BlockId, GpuId> gpu_of;
  IdVector<BlockId, int> bin_of;  // the GPU again, or the group where groups stay stages
};

/// A placement whose bins are the GPUs.
Placement gpus_as_bins(IdVector<BlockId, GpuId> gpu_of);

/// Builds stages of many placements of one graph. Must not outlive the graph.
class StageBuilder {
 public:
  explicit StageBuilder(const BlockGraph& graph);

  /// The stages in topological order, ties by first block. A stage is a part of one connected
  /// component of a bin; a new one opens whenever a path would leave the stage and come back.
  MixedStages build(const Placement& placement) const;

  /// The stages that each stage reads from, ascending. Requires: every block in one stage.
  IdVector<MixedStageId, std::vector<MixedStageId>> sources(const MixedStages& stages) const;

 private:
  IdVector<BlockId, BlockId> components(const Placement& placement) const;
  MixedStages cut_components(const Placement& placement) const;
  MixedStages in_order(MixedStages stages) const;

  IdVector<BlockId, std::vector<BlockId>> predecessors_;
};

/// The stage of each block. Requires: every block of the graph is in one stage.
IdVector<BlockId, MixedStageId> stage_of_block(const MixedStages& stages, std::size_t blocks);

}  // namespace ferry
