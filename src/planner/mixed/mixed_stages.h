// Turns an assignment of blocks into stages: the blocks of one GPU that run as one (FTPipe, USENIX
// ATC 2021). The graph of stages never has a cycle.
#pragma once

#include <vector>

#include "planner/mixed/block_graph.h"

namespace ferry {

/// A GPU may have any number of stages, and neighbours need not be on neighbouring GPUs.
struct MixedStage {
  int gpu = 0;
  std::vector<int> blocks;  // ascending
  int depth = 0;            // d(s): stage visits between it and the end of the longest path from it
};

/// Where blocks are. Blocks of one bin may share a stage; a bin's blocks are on one GPU.
struct Placement {
  std::vector<int> gpu_of;  // of each block
  std::vector<int> bin_of;  // the GPU again, or the group where groups stay stages of their own
};

/// Builds stages of many placements of one graph. Must not outlive the graph.
class StageBuilder {
 public:
  explicit StageBuilder(const BlockGraph& graph);

  /// The stages in topological order, ties by first block. A stage is a part of one connected
  /// component of a bin; a new one opens whenever a path would leave the stage and come back.
  std::vector<MixedStage> build(const Placement& placement) const;

  /// The stages that each stage reads from, ascending. Requires: every block in one stage.
  std::vector<std::vector<int>> sources(const std::vector<MixedStage>& stages) const;

 private:
  std::vector<int> components(const Placement& placement) const;

  std::vector<std::vector<int>> predecessors_;
};

/// The stage of each block. Requires: every block of the graph is in one stage.
std::vector<int> stage_of_block(const std::vector<MixedStage>& stages, int blocks);

}  // namespace ferry
