// Slots of one region for two kinds of values that follow each other: what forwards make for their
// backwards, and the sums that these gather until the end of the step. The one gives way while the
// other grows.
//
//   first byte [read by the last backward][by the one before] ... -> <- ... [sums of the first]
#pragma once

#include <cstddef>
#include <vector>

#include "base/units.h"
#include "plan/plan.h"

namespace ferry {

/// Slots of a value or of some, and the times, of visits or tasks, from the first to the last of
/// which they are taken.
struct Stay {
  int id = 0;  // the caller's
  Bytes size;
  std::size_t first = 0;
  std::size_t last = 0;
  Bytes offset = {};  // behind the region's first byte
};

/// Lays out both, what stays longest at the start and what comes first at the end, and gives every
/// stay its offset; returns the least size of a region in which none overlaps another at the same
/// time. Where it costs no bytes, those from the end lie in the order of their last times instead,
/// the latest at the end: then what comes first from the start, in the next step, follows the
/// earliest.
Bytes share_region(std::vector<Stay>& from_start, std::vector<Stay>& from_end);

}  // namespace ferry
