// Mobius's partition by its mixed-integer program (mip_model.h), solved by HiGHS from the answer of
// the search (partition.h): the search finds, the program proves.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/cuts/evaluator.h"
#include "planner/cuts/linear_program.h"
#include "planner/cuts/partition.h"

namespace ferry {

struct MipLimits {
  int stages = 0;  // only this stage count; 0: all
  // Iterations of the simplex method times rows of the program, over all programs, and partitions
  // evaluated: the effort, in a unit that is the same in every run. The default takes some seconds.
  std::int64_t effort = 15'000'000;
  double seconds = kUnbounded;     // a safety net: when it ends the search, another run may differ
  bool every_micro_batch = false;  // the program with all start times, as printed; slower
};

/// What is known of one stage count.
struct StageCountResult {
  int stages = 0;
  double lower_bound = 0;    // no partition into so many stages is faster
  double step = kUnbounded;  // the fastest seen
  std::int64_t nodes = 0;    // of branch and bound; 0: a relaxation or an older bound sufficed
  bool evaluated = false;    // the program left it open, and all of its few partitions were tried
};

struct MipResult {
  std::vector<int> ends;   // as in Partition; empty: nothing fits if exact, else none was found
  double step = 0;         // by evaluate_stages()
  double lower_bound = 0;  // proven; never above the step
  double gap = 0;          // (step - lower_bound) / step
  bool exact = false;      // proven to 1e-6 of the step, what the solver's arithmetic can tell
  std::int64_t nodes = 0;
  std::int64_t iterations = 0;
  std::vector<StageCountResult> stage_counts;  // ascending; those with a feasible partition
};

/// Solves the program for every stage count whose lower bound is below the best step, lowest bound
/// first. Every partition the solver finds is checked against evaluate_stages(). A stage count of
/// few partitions that the program leaves open is settled by evaluating them all. Throws
/// ResourceError when ferry was built without HiGHS. Not for two threads at once.
MipResult solve_partition_mip(const EvaluatorProblem& problem,
                              const std::vector<BlockCosts>& blocks, const MipLimits& limits);

/// What solve_partition_mip() found within the seconds that the command line grants it, in the
/// search's form.
PartitionResult mip_partition(const EvaluatorProblem& problem,
                              const std::vector<BlockCosts>& blocks);

}  // namespace ferry
