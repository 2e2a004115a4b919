// Improves a Mixed-pipe candidate by moves, one at a time: a border block to the neighbouring
// stage, a stage or its rear half to another GPU, two stages exchanged. Every move keeps the stages
// free of cycles and every GPU within its budget; one that would not is refused.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/mixed/mixed_candidate.h"

namespace ferry {

/// Tabu search: each round takes the best move to a place not left lately, also a worse one, and
/// the best candidate of all rounds is the answer. Limited by counts, so that equal inputs give
/// equal plans on any machine.
struct RefineOptions {
  int rounds = 48;                    // at most; 0 changes nothing
  int patience = 12;                  // rounds without a better candidate after which it ends
  std::size_t moves_per_round = 128;  // a seeded sample when there are more
  int scored_per_round = 3;           // of the shortest periods; the caller's score sees these
  std::uint64_t seed = 1;
};

struct RatedCandidate {
  MixedCandidate candidate;
  MixedKey key;
};

/// Blocks that must be on one GPU, beside the protected runs: tied ones that share a weight.
using Together = std::vector<std::vector<BlockId>>;

/// The start or something that beats it. Requires: the start fits and respects `together`.
RatedCandidate refine(CandidateMaker& maker, const RatedCandidate& start, const Together& together,
                      const RefineOptions& options, const MixedScore& score);

}  // namespace ferry
