#include "train/state_pieces.h"

#include <algorithm>

#include "spec/layout.h"

namespace ferry {

ElementRange common(const ElementRange& a, const ElementRange& b) {
  const std::int64_t first = std::max(a.first, b.first);
  return {first, std::max<std::int64_t>(0, std::min(a.end(), b.end()) - first)};
}

MomentOffsets moment_offsets(std::int64_t elements, Precision precision) {
  const Bytes low{precision == Precision::bf16 ? elements * 2 : 0};
  return {low, low + Bytes{elements * 4}};
}

IdVector<ValueId, ElementRange> state_elements(const Plan& plan) {
  IdVector<ValueId, ElementRange> found(plan.values.size());
  IdVector<BlockId, std::int64_t> ends(plan.blocks.size());
  for (const ValueId id : plan.values.ids()) {
    const Value& value = plan.values[id];
    if (value.kind != ValueKind::state) continue;
    std::int64_t& end = ends[value.block];
    found[id] = {end, value.bytes.count / state_element_bytes(plan.precision)};
    end = found[id].end();
  }
  return found;
}

}  // namespace ferry
