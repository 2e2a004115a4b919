#include "planner/write/allocate.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "planner/write/builder.h"

namespace ferry {

SlotRing::SlotRing(Bytes first, Bytes slot, int count)
    : first_(first),
      size_(slot),
      slots_(count),
      oldest_(count > 0 ? 0 : kNone),
      newest_(count - 1) {
  for (int s = 0; s < count; ++s) slots_[s] = {{}, s - 1, s + 1 < count ? s + 1 : kNone};
}

std::optional<Bytes> SlotRing::find(ValueId value) {
  const int slot = slot_of(value);
  if (slot == kNone) return std::nullopt;
  use_last(slot);
  return offset(slot);
}

Bytes SlotRing::take(ValueId value, std::span<const ValueId> kept) {
  const auto is_kept = [&](int slot) {
    return std::find(kept.begin(), kept.end(), slots_[slot].value) != kept.end();
  };
  int slot = oldest_;
  while (slot != kNone && is_kept(slot)) slot = slots_[slot].newer;
  FERRY_CHECK(slot != kNone, "a ring needs more slots than one task uses");
  const ValueId before = slots_[slot].value;
  if (before.valid() && slot_of(before) == slot) slot_of(before) = kNone;
  slots_[slot].value = value;
  slot_of(value) = slot;
  use_last(slot);
  return offset(slot);
}

void SlotRing::use_last(int slot) {
  if (slot == newest_) return;
  Slot& used = slots_[slot];
  slots_[used.newer].older = used.older;
  (used.older == kNone ? oldest_ : slots_[used.older].newer) = used.newer;
  slots_[newest_].newer = slot;
  used.older = newest_;
  used.newer = kNone;
  newest_ = slot;
}

int& SlotRing::slot_of(ValueId value) {
  if (value.index() >= slot_of_.size()) slot_of_.resize(value.index() + 1, kNone);
  return slot_of_[value];
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
      visit.offsets.push_back(first + (from_end ? region - used - size : used));
      used += size;
    }
    FERRY_CHECK(used <= region, "a visit is larger than its region");
    from_end = !from_end;
  }
}

}  // namespace ferry
