#include "planner/write/shared_region.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace ferry {
namespace {

/// Offsets behind one end of the region; returns what all take.
Bytes stack(std::vector<Stay>& stays) {
  Bytes taken;
  for (Stay& stay : stays) {
    stay.offset = taken;
    taken += stay.size;
  }
  return taken;
}

bool meet(const Stay& a, const Stay& b) { return a.first <= b.last && b.first <= a.last; }

/// Offsets of both behind their ends, in the order in which they are; returns the least region.
Bytes stack_both(std::vector<Stay>& from_start, std::vector<Stay>& from_end) {
  Bytes region = std::max(stack(from_start), stack(from_end));
  for (const Stay& low : from_start) {
    for (const Stay& high : from_end) {
      if (!meet(low, high)) continue;
      region = std::max(region, low.offset + low.size + high.offset + high.size);
    }
  }
  return region;
}

}  // namespace

Bytes share_region(std::vector<Stay>& from_start, std::vector<Stay>& from_end) {
  std::ranges::stable_sort(from_start, {}, &Stay::first);
  std::ranges::stable_sort(from_start, std::greater{}, &Stay::last);
  std::ranges::stable_sort(from_end, {}, &Stay::first);
  Bytes region = stack_both(from_start, from_end);
  if (!std::ranges::is_sorted(from_end, std::greater{}, &Stay::last)) {
    std::vector<Stay> by_last = from_end;
    std::ranges::stable_sort(by_last, std::greater{}, &Stay::last);
    const Bytes so = stack_both(from_start, by_last);
    if (so <= region) {
      region = so;
      from_end = std::move(by_last);
    }
  }
  for (Stay& high : from_end) high.offset = region - high.offset - high.size;
  return region;
}

}  // namespace ferry
