// Bytes of DRAM through which values of one kind pass on their way from and to the drives, each as
// large as it is.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "plan/plan.h"
#include "planner/costs/chain.h"
#include "planner/write/residence.h"
#include "planner/write/stream_schedule.h"

namespace ferry {

/// A value that needs room gets the bytes that were used longest ago, so that copies run ahead of,
/// and behind, what uses the values as far as there is room. Of equal values it is a ring of slots.
class StagingRegion {
 public:
  StagingRegion(Bytes first, Bytes size);

  /// Where the value still lies whole, which then counts as used now, or nothing.
  std::optional<Bytes> find(ValueId value);

  /// Room for the value, which lies there from now on. Requires: 0 < size <= the region's.
  Bytes take(ValueId value, Bytes size);

 private:
  struct Part {
    Bytes offset;
    Bytes size;
    ValueId value;  // none: it has lost bytes to a later one, or nobody was here yet
    int used;       // at which turn
  };

  using Parts = std::vector<Part>;  // of all bytes, in order

  int last_use(Parts::const_iterator part, Bytes end) const;
  Parts::const_iterator part_at(Parts::const_iterator part, Bytes offset) const;
  void replace(Parts::const_iterator first, const Part& made);

  Bytes first_;
  Parts parts_;
  int turn_ = 0;
};

/// What any `count` neighbours among the sizes take together at most; sizes of 0 are nobody's.
Bytes room_for_neighbours(std::span<const Bytes> sizes, int count);

/// By block, what its sum takes where it lands in DRAM; 0: it stays on its device.
std::vector<Bytes> landing_sums(const Chain& chain, const Residence& residence);

/// The regions' sizes, of what the schedule rests on drives, by StreamSchedule::staging.
Bytes room_for_states(const Chain& chain, const StreamSchedule& schedule);
Bytes room_for_weights(const Chain& chain, const StreamSchedule& schedule);
/// `landing`: landing_sums().
Bytes room_for_sums(const StreamSchedule& schedule, std::span<const Bytes> landing);
Bytes room_for_activations(const Chain& chain, const StreamSchedule& schedule);

}  // namespace ferry
