// Cuts a chain of blocks into stages so that a Mobius step is short: the search over contiguous
// cuts that has the optimum of the paper's mixed-integer program (evaluator.h is its objective).
#pragma once

#include <optional>
#include <vector>

#include "planner/cuts/evaluator.h"
#include "planner/cuts/partition_bounds.h"

namespace ferry {

/// One block's share of a stage; a stage's costs are the sums of its blocks', but `activation` is
/// that of its last block and `activation_gradient` that of its first.
using BlockCosts = StageCosts;

struct Partition {
  std::vector<int> ends;  // one past the last block of each stage, ascending; the last is the chain
  double step = 0;        // by the evaluator
};

struct PartitionResult {
  std::vector<Partition> best;  // best first, distinct, at most `keep`; empty: nothing fits
  bool exact = false;           // best.front() is the optimum
  double lower_bound = 0;       // no partition is faster by the evaluator
  double gap = 0;               // (best - lower_bound) / best; 0 when exact or empty
};

/// Chains of at most this many blocks are searched exactly.
inline constexpr int kExactBlocks = 14;

/// The stages of a partition.
std::vector<StageCosts> stages_of(const std::vector<BlockCosts>& blocks,
                                  const std::vector<int>& ends);

/// Searches all contiguous partitions: by branch and bound up to kExactBlocks, by local search
/// from balanced partitions of every interesting stage count beyond. Deterministic; ties go to
/// fewer stages, then to the earlier cuts.
PartitionResult search_partition(const EvaluatorProblem& problem,
                                 const std::vector<BlockCosts>& blocks, int keep);

/// The two halves of search_partition(), for tests and comparison.
PartitionResult branch_and_bound(const EvaluatorProblem& problem,
                                 const std::vector<BlockCosts>& blocks, int keep);
PartitionResult local_search(const EvaluatorProblem& problem, const std::vector<BlockCosts>& blocks,
                             int keep);

/// The most even partition into at most `stages` stages; more where memory asks for it.
std::vector<int> balanced_partition(const EvaluatorProblem& problem,
                                    const std::vector<BlockCosts>& blocks, int stages);

/// Climbs from the most even partition into exactly `stages` stages, and again `kicks` times from
/// near the best; nothing when no such partition was found. Deterministic.
std::optional<Partition> climb_stage_count(const EvaluatorProblem& problem,
                                           const std::vector<BlockCosts>& blocks, int stages,
                                           int kicks);

}  // namespace ferry
