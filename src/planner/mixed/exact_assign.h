// The exact assignment of items to GPUs by depth-first branch and bound: every item on one GPU, no
// GPU beyond its memory, loads as mixed_load.h counts them. First the least period, then, with the
// period fixed, the least bytes.
//
// Limited by nodes, not by time, so that equal inputs give equal plans on any machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/mixed/mixed_load.h"

namespace ferry {

/// Beyond these the search is not tried.
inline constexpr std::size_t kExactItems = 64;
inline constexpr int kExactGpus = 8;

struct ExactOptions {
  std::int64_t nodes = 20'000;  // of each of the two searches: placements that are tried
  ItemGpus incumbent;           // an assignment that fits, or empty
};

struct ExactResult {
  ItemGpus gpu_of_item;  // empty: nothing fits, or nothing was found within the nodes
  double period = 0;
  Bytes step_bytes;
  bool period_exact = false;  // the least period; with an empty assignment: proof that nothing fits
  bool bytes_exact = false;   // the least bytes of that period
};

/// Requires: at most kExactItems items and kExactGpus GPUs; the incumbent fits `budgets`.
ExactResult exact_assign(const LoadModel& model, const GpuBytes& budgets,
                         const ExactOptions& options);

}  // namespace ferry
