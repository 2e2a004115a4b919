// Slots of one region for two kinds of values that follow each other: what forwards keep for their
// backwards, and the sums that backwards gather until the end of the step. What is kept last is
// read first, so the one gives way while the other grows.
//
//   first byte [kept by the first visit][by the second] ... -> <- ... [sums of the first backward]
#pragma once

#include <cstddef>
#include <vector>

#include "base/units.h"
#include "plan/plan.h"

namespace ferry {

/// Slots of a block's values, and the visits from the first to the last of which they are taken.
struct Stay {
  BlockId block;
  Bytes size;
  std::size_t first = 0;
  std::size_t last = 0;
  Bytes offset = {};  // behind the region's first byte
  ValueKind kind = ValueKind::saved;
};

/// Lays out both, each in the order of its first visits, and gives every stay its offset; returns
/// the least size of a region in which none overlaps another at the same time.
Bytes share_region(std::vector<Stay>& from_start, std::vector<Stay>& from_end);

}  // namespace ferry
