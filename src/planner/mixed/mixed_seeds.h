// Where Mixed-pipe's refinement starts: the placements that one coarsening, or one contiguous cut,
// gives.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/mixed/assign.h"
#include "planner/mixed/mixed_candidate.h"
#include "planner/mixed/mixed_refine.h"

namespace ferry {

struct SeedProblem {
  const BlockGraph& graph;
  const MixedMachine& machine;
  const LoadRules& rules;
  std::int64_t exact_nodes = 0;
};

/// The tied weights whose bit is set, as blocks that share a GPU.
Together together_of(const BlockGraph& graph, std::uint32_t colocated);

struct Seeds {
  std::vector<MixedCandidate> fitting;
  MixedShortage shortage;  // of the nearest miss, when none fits
};

/// Seeds from `groups` (coarsen.h), with groups joined where `together` asks for it. Beside the
/// assignment itself, those in which equal classes are dealt again as neighbours, cyclic and as a V
/// (maps 0..P-1,0..P-1 and 0..P-1,P-1..0): the same loads, fewer borders.
///
/// Assignment knows only what does not depend on stages. Where the stages' inputs take a GPU above
/// its budget, the budgets are tightened by the excess and the assignment is made again.
Seeds group_seeds(const SeedProblem& question, CandidateMaker& maker, const Items& groups,
                  const Together& together);

/// One run of blocks per GPU with the least longest run, by dynamic program; or none that fits.
Seeds contiguous_seeds(const SeedProblem& question, CandidateMaker& maker);

}  // namespace ferry
