// The place pass: what rests in DRAM and what on the drives, by value density, of what rests on no
// device.
//
// A byte of DRAM saves per step: hi16 (W) two reads and a write, optimizer states (S) and spilled
// gradient sums one read and one write, a checkpoint one write and one read (the table of
// docs/planner.md, "Place"). So what leaves DRAM first is S, of the deepest blocks first, whose
// updates have the latest deadlines; then sums that wait for the norm; then checkpoints; W last.
// Without clipping sums wait for nothing and leave first: a few slots in turn are enough, and no
// drives.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/costs/chain.h"
#include "planner/write/stream_schedule.h"

namespace ferry {

/// More than any place has.
inline constexpr Bytes kEverything{std::int64_t{1} << 62};

/// Everything that can leave DRAM leaves it. `schedule`: homes on devices as they are.
void rest_all_on_drives(const PlanQuestion& question, const Chain& chain, StreamSchedule& schedule);

/// What a plan takes of DRAM that has a slot there for each value, and how much of that inputs
/// take.
struct DramNeed {
  Bytes all;
  Bytes inputs;
};

/// Moves to the drives what does not fit, given that the plan with everything in DRAM takes
/// `needed` of the host's `limit`; what the schedule has at home on devices takes none of
/// them. Nothing when it fits. Where the machine has no drives sums that wait for nothing pass
/// through DRAM in turn. A few large states and weights, of embeddings, may stay where the
/// slots that they would pass through take more than they do.
void rest_by_value(const PlanQuestion& question, const Chain& chain, const DramNeed& needed,
                   Bytes limit, StreamSchedule& schedule);

/// In which states may leave DRAM (StreamSchedule::leaving): the deepest first; evenly spread over
/// the chain, so that the drives move while backward goes through blocks whose states are in DRAM;
/// or likewise two by two, an attention block with its MLP, so that no two large states follow each
/// other through the slots.
std::vector<std::vector<BlockId>> leaving_orders(const Chain& chain);

/// Of the schedule, where there is room for everything.
DramNeed dram_need(PlanQuestion question, const Chain& chain, const StreamSchedule& schedule);

/// How much more of DRAM the plan of a schedule takes than that of another in which other optimizer
/// states rest on the drives, where no sums share DRAM with activations (host_slots.h). Nothing
/// where more than that differs.
std::optional<Bytes> more_in_dram(const Chain& chain, const StreamSchedule& now,
                                  const StreamSchedule& then);

/// What the plan takes of DRAM, of the drives, and of the device of which it takes most.
Bytes host_peak(const Plan& plan);
Bytes drive_peak(const Plan& plan);
/// What forward may fill of so much DRAM: what is free, and where sums land later.
Bytes room_in_forward(const Plan& plan, Bytes limit);
Bytes device_peak(const Plan& plan);

}  // namespace ferry
