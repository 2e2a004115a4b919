#include "planner/write/allocate.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "planner/write/builder.h"

namespace ferry {

SlotRing::SlotRing(Bytes first, Bytes slot, int count)
    : first_(first), size_(slot), slots_(count) {}

std::optional<Bytes> SlotRing::find(ValueId value) {
  const auto found = std::find_if(slots_.begin(), slots_.end(),
                                  [&](const Slot& slot) { return slot.value == value; });
  if (found == slots_.end()) return std::nullopt;
  found->last_use = clock_++;
  return first_ + size_ * (found - slots_.begin());
}

Bytes SlotRing::take(ValueId value, std::span<const ValueId> kept) {
  auto oldest = slots_.end();
  for (auto slot = slots_.begin(); slot != slots_.end(); ++slot) {
    if (std::find(kept.begin(), kept.end(), slot->value) != kept.end()) continue;
    if (oldest == slots_.end() || slot->last_use < oldest->last_use) oldest = slot;
  }
  FERRY_CHECK(oldest != slots_.end(), "a ring needs more slots than one task uses");
  *oldest = {value, clock_++};
  return first_ + size_ * (oldest - slots_.begin());
}

Bytes slot_size(Bytes size) { return round_up(size, kSlotAlignment); }

RegionSizes region_sizes(std::span<const VisitMemory> visits) {
  RegionSizes sizes;
  Bytes before;  // what the last visit that needs anything needs
  for (const VisitMemory& visit : visits) {
    if (visit.values.empty()) continue;
    sizes.least = std::max(sizes.least, visit.need);
    sizes.full = std::max(sizes.full, before + visit.need);
    before = visit.need;
  }
  return sizes;
}

void lay_out_visits(std::span<VisitMemory> visits, std::span<const Value> sizes, Bytes first,
                    Bytes region) {
  bool from_end = false;
  for (VisitMemory& visit : visits) {
    if (visit.values.empty()) continue;
    Bytes used;
    for (const ValueId value : visit.values) {
      const Bytes size = slot_size(sizes[value.index()].bytes);
      visit.offsets[value] = first + (from_end ? region - used - size : used);
      used += size;
    }
    FERRY_CHECK(used <= region, "a visit is larger than its region");
    from_end = !from_end;
  }
}

}  // namespace ferry
