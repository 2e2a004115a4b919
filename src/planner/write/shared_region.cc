#include "planner/write/shared_region.h"

#include <algorithm>

namespace ferry {
namespace {

/// Offsets behind one end of the region; returns what all take.
Bytes stack(std::vector<Stay>& stays) {
  std::ranges::stable_sort(stays, {}, &Stay::first);
  Bytes taken;
  for (Stay& stay : stays) {
    stay.offset = taken;
    taken += stay.size;
  }
  return taken;
}

bool meet(const Stay& a, const Stay& b) { return a.first <= b.last && b.first <= a.last; }

}  // namespace

Bytes share_region(std::vector<Stay>& from_start, std::vector<Stay>& from_end) {
  const Bytes one = stack(from_start);
  const Bytes other = stack(from_end);
  Bytes region = std::max(one, other);
  for (const Stay& low : from_start) {
    for (const Stay& high : from_end) {
      if (!meet(low, high)) continue;
      region = std::max(region, low.offset + low.size + high.offset + high.size);
    }
  }
  for (Stay& high : from_end) high.offset = region - high.offset - high.size;
  return region;
}

}  // namespace ferry
