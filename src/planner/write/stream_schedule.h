// What a streaming strategy decides: which blocks run where, for which micro-batches, in which
// order, and where states rest. stream_plan.h writes the plan of a schedule; Mobius, Harmony,
// RoundPipe, ZeRO and Fuyou differ in their schedules only.
#pragma once

#include <string>
#include <vector>

#include "planner/costs/chain.h"
#include "planner/costs/direction.h"
#include "planner/write/activation_policy.h"

namespace ferry {

/// A device runs consecutive blocks for consecutive micro-batches, one micro-batch after another.
struct StageVisit {
  Direction direction = Direction::forward;
  int device = 0;
  int first = 0;  // block
  int end = 0;    // one past the last block
  int first_batch = 0;
  int end_batch = 0;
};

/// Where a block's states rest between steps, and its gradient sum between visits. As it stands: in
/// DRAM, from where weights come up for every visit and where sums go.
struct BlockHome {
  /// W and S are at home on the device of the block's visits, which updates them; G never leaves
  /// it. Requires: all its visits are on one device. Of a tied head, which has no W: G stays.
  bool on_device = false;
  /// Every device that reads W has a slot for it alone: the host's new W comes up once per step.
  bool weight_stays = false;
  /// G has a slot of its own on the device of the block's backwards and comes down behind the other
  /// sums of the step: while the next step's forward runs, which needs the block's update last.
  bool sum_waits = false;
  bool weight_on_drive = false;
  bool state_on_drive = false;

  bool operator==(const BlockHome&) const = default;
};

/// How many blocks of every device have what there; a device with fewer has them all.
struct HomeCounts {
  int all = 0;      // W, S and G; updated there: the first blocks, which the next step needs first
  int sums = 0;     // of the others, G until all other sums are down: the last blocks
  int weights = 0;  // of the others, W from step to step: the first that are read more than once

  bool operator==(const HomeCounts&) const = default;
};

struct StreamSchedule {
  std::string strategy;
  /// In an order that is right when visits run one after another. Every block runs forward once
  /// per micro-batch (the head when training: never) and backward once, micro-batches ascending.
  std::vector<StageVisit> visits;
  int devices = 1;           // the machine's first ones
  int activation_slots = 3;  // per device, at least kLeastActivationSlots
  int token_slots = 1;       // per device that needs tokens
  /// With clipping every update waits for all norms. In block order the next step's first weights
  /// are ready first; in the order of landing no update waits for the last gradient sum.
  bool updates_as_landed = false;
  /// Updates wait for the end of backward even without clipping, as ZeRO-Offload's optimizer does.
  bool updates_at_end = false;

  HomeCounts on_devices;         // what the search asks for; the writer sees homes only
  std::vector<BlockHome> homes;  // per block; empty: everything on the host
  /// Sums take host slots in turn, and those that wait for something rest on the drives.
  bool gradients_on_drive = false;
  std::vector<bool> activations_on_drive;  // per block, its input; empty: none
  ActivationPolicies policies =
      {};               // per block: kept on the device, elsewhere meanwhile, or computed again
  int saved_slots = 3;  // per device, of the ring through which what leaves it passes; DRAM has as
                        // many for what goes on to the drives
  int staging_slots = 3;  // host slots that values of the drives take in turn, by kind of value
  /// The plan has the drives' place even if it has nothing for them: the plan beside it has.
  bool names_drives = false;

  bool uses_drives() const;
};

BlockHome home_of_block(const StreamSchedule& schedule, BlockId block);

/// The blocks that run on the device.
std::vector<bool> blocks_on(const Chain& chain, const StreamSchedule& schedule, int device);

/// By block: its micro-batches in flight on the device that has most of them. 0 where a backward
/// runs on another device than its forward.
KeptSlots kept_slots(const Chain& chain, const StreamSchedule& schedule);

/// A slot for any of what the blocks that run on a device send elsewhere between forward and
/// backward.
Bytes largest_leaving(const Chain& chain, const StreamSchedule& schedule,
                      const std::vector<bool>& runs);

/// The device's slots for what the schedule's forwards keep; `slots` are kept_slots() of the
/// schedule.
Bytes saved_bytes(const Chain& chain, const StreamSchedule& schedule, const KeptSlots& slots,
                  int device);

/// A backward task's input, the gradient it reads and the one it writes.
inline constexpr int kLeastActivationSlots = 3;

}  // namespace ferry
