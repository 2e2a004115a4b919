// Mixed-pipe: which GPU runs which blocks, when a GPU may hold blocks that are not neighbours
// (FTPipe, USENIX ATC 2021). Coarsens the graph to L groups for several L, assigns the groups as
// bin packing with memory, turns bins into stages, and refines the best. Pure: writes no plan.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/mixed/assign.h"
#include "planner/mixed/block_graph.h"
#include "planner/mixed/mixed_candidate.h"
#include "planner/mixed/mixed_refine.h"

namespace ferry {

struct MixedPipeOptions {
  MixedMachine machine;
  LoadRules rules;
  HoldsRule holds;                    // empty: synchronous 1F1B over rules.micro_batches
  std::vector<int> group_counts;      // L; empty: P, 2 P, ..., 8 P up to the blocks, and the blocks
  bool rematerialise = true;          // make cheap tensors again at their consumers
  std::int64_t exact_nodes = 20'000;  // of each exact search; 0: LPT alone
  int refined = 3;                    // candidates that are refined: the best of the sweep
  RefineOptions refine;
};

/// One seed of the sweep.
struct SweepRow {
  int groups = 0;               // of the coarsened graph; 0: the contiguous cut
  std::uint32_t colocated = 0;  // bit i: the uses of tied weight i share a GPU
  int stages = 0;
  double period = 0;
  double seconds = 0;  // by the score
};

struct MixedPipeResult {
  bool fits = false;
  MixedShortage shortage;  // when nothing fits: the place and what it lacks

  MixedCandidate best;
  double seconds = 0;          // by the score
  double objective = 0;        // the period: seconds per micro-batch in the steady state
  double lower_bound = 0;      // no assignment of blocks to GPUs has a shorter period
  double gap = 0;              // objective / lower_bound - 1
  double compute_balance = 0;  // mean / max over the GPUs
  double memory_balance = 0;
  std::vector<char> rematerialised;   // per tensor
  std::vector<char> tied_on_one_gpu;  // per tied weight: co-located; otherwise replicas
  std::vector<GpuId> empty_gpus;      // allowed, and worth reporting
  std::vector<SweepRow> sweep;        // every seed that fitted, in the order of the search
};

/// Plans `graph` on options.machine. Deterministic. Requires: check_block_graph() holds and
/// rules.micro_batches >= 1.
MixedPipeResult mixed_pipe(const BlockGraph& graph, const MixedPipeOptions& options,
                           const MixedScore& score = {});

/// L of the sweep for P GPUs and n blocks: P, 2 P, ..., 8 P as far as n allows, and n itself when
/// the exact search takes it or no multiple of P is allowed.
std::vector<int> swept_group_counts(int gpus, int blocks);

}  // namespace ferry
