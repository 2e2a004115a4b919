// Where values lie in a device's memory: rings of equal slots for activations, and one region that
// consecutive visits of stages fill from alternating ends.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/units.h"
#include "plan/plan.h"

namespace ferry {

/// Equal slots side by side. A value that needs one gets the slot that was used longest ago, so
/// that copies run ahead of, and behind, the computation as far as the ring is long.
class SlotRing {
 public:
  SlotRing(Bytes first, Bytes slot, int count);

  /// The slot that still holds the value, which then counts as used now, or nothing.
  std::optional<Bytes> find(ValueId value);

  /// The slot used longest ago among those that do not hold one of `kept`; it holds `value` from
  /// now on. Requires: more slots than kept values.
  Bytes take(ValueId value, std::span<const ValueId> kept);

 private:
  static constexpr int kNone = -1;

  struct Slot {
    ValueId value;
    int older = kNone;  // neighbours in order of use
    int newer = kNone;
  };

  void use_last(int slot);
  int& slot_of(ValueId value);
  Bytes offset(int slot) const { return first_ + size_ * slot; }

  Bytes first_;
  Bytes size_;
  std::vector<Slot> slots_;
  IdVector<ValueId, int> slot_of_;  // kNone: the value is in none
  int oldest_;
  int newest_;
};

/// What a stage needs at once on its device during one visit, in the order in which it is needed.
struct VisitMemory {
  std::vector<ValueId> values;
  Bytes need;                  // slots included
  std::vector<Bytes> offsets;  // of the values, once they are laid out
};

/// The least region in which every visit fits, and the least in which two neighbours do.
struct RegionSizes {
  Bytes least;
  Bytes full;
};
RegionSizes region_sizes(std::span<const VisitMemory> visits);

/// Places visit 0 from the start of [first, first + region), visit 1 from its end, and so on: a
/// visit's first values lie farthest from its neighbours', so the copies that come first find free
/// bytes first (Mobius, constraints (5) and (6), byte by byte). Visits that need nothing have no
/// end. Requires: region >= every need.
void lay_out_visits(std::span<VisitMemory> visits, std::span<const Value> sizes, Bytes first,
                    Bytes region);

/// `size` rounded up to kSlotAlignment.
Bytes slot_size(Bytes size);

}  // namespace ferry
