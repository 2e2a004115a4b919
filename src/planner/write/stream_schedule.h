// What a strategy decides: which blocks run where, for which micro-batches, in which order, and
// where their values rest. stream_plan.h writes the plan of a schedule; Mobius, Harmony, RoundPipe,
// ZeRO, Fuyou, the pipelines and `resident` differ in their schedules only.
#pragma once

#include <array>
#include <compare>
#include <span>
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

  bool operator==(const StageVisit&) const = default;
};

inline bool contains(const StageVisit& visit, int block) {
  return block >= visit.first && block < visit.end;
}

/// Where a block's states rest between steps, its gradient sum between visits, and its inputs from
/// forward to backward. As it stands: in DRAM, from where weights and inputs come up for every
/// visit and where sums go.
struct BlockHome {
  /// W and S are at home on the device of the block's visits, which updates them; G never leaves
  /// it. Requires: all its visits are on one device. Of a tied head, which has no W: G stays.
  bool on_device = false;
  /// Every device that reads W has a slot for it alone: the host's new W comes up once per step.
  bool weight_stays = false;
  /// G has a slot of its own on the device of the block's backwards. It comes down behind the other
  /// sums of the step: while the next step's forward runs, which needs the block's update last.
  /// Updated on the device, it is used behind the device's last visit.
  bool sum_waits = false;
  /// G or R comes down with the others and has a slot of its own in DRAM, and its update comes
  /// behind those of other blocks, as if it had waited on the device. Where updates wait for
  /// something else, it is as if it were not.
  bool sum_waits_in_dram = false;
  /// A.b.m has a slot of the device's until its last reader there is done, and so has dA.b.m; of
  /// the first block: X.m, also where the head reads it. What another device makes of them, or
  /// reads, passes through the host. Requires: all the block's visits are on one device.
  bool input_stays = false;
  /// Of a block whose weight stays: its new W comes up as soon as it is updated, in the step that
  /// updates it. With clipping only where it rests in DRAM: it is updated when its sum lands, as
  /// those of StreamSchedule::updates_ahead, and where the step is clipped W comes up again.
  bool renews_at_once = false;
  bool weight_on_drive = false;
  bool state_on_drive = false;
  /// But so many of its first pieces, which DRAM has. Fewer than all.
  int pieces_in_dram = 0;
  /// Its sum passes through DRAM in turn with those of other blocks.
  bool sum_passes = false;
  /// And rests on the drives where it waits for something. One that passes and does not may wait
  /// for nothing (Residence::sum_waits_on_host).
  bool sum_on_drive = false;

  bool operator==(const BlockHome&) const = default;
};

/// Nothing of the block leaves its device, but what other devices read.
inline constexpr BlockHome kAllOnDevice{.on_device = true, .sum_waits = true, .input_stays = true};

/// How many blocks of every device have what there; a device with fewer has them all.
struct HomeCounts {
  int all = 0;      // W, S and G; updated there: the first blocks, which the next step needs first
  int large = 0;    // of them, the largest in place of the first, so that what passes, and what it
                    // passes through in DRAM, needs no room for these
  int sums = 0;     // of the others, G until all other sums are down: the last blocks
  int weights = 0;  // of the others, W from step to step: the first that are read more than once
  /// Of every so many of the blocks of `sums` one's goes down at once, unless all others wait; 0:
  /// of none. Else the links stand still where backward begins, and hold it up where it ends.
  int passing = 0;
  // The device of the first block has less room than others where that is a large embedding: so
  // many more on all others.
  int all_elsewhere = 0;
  int sums_elsewhere = 0;
  /// Of the blocks that have nothing of that, so many, evenly apart, have W from step to step and
  /// renew it at once.
  int renewed = 0;

  bool operator==(const HomeCounts&) const = default;
};

/// DRAM for what passes between it and the drives: of each kind of value for so many neighbours at
/// once, each at least 1; of states none where nothing is updated.
struct StagingRoom {
  int states = 3;
  int pieces = 0;  // of states, in place of whole blocks' so many neighbouring pieces; 0: those
  int weights = 3;
  int sums = 3;
  int activations = 6;

  bool operator==(const StagingRoom&) const = default;
};
/// What the search turns of it.
inline constexpr std::array kStagingKinds = {&StagingRoom::states, &StagingRoom::sums,
                                             &StagingRoom::weights};
inline constexpr StagingRoom kLeastStaging{.states = 1, .weights = 1, .sums = 1, .activations = 2};

struct StreamSchedule {
  std::string strategy;
  /// In an order that is right when visits run one after another. Every block runs forward once
  /// per micro-batch (the head when training: never) and backward once, micro-batches ascending.
  std::vector<StageVisit> visits;
  int devices = 1;           // the machine's first ones
  int activation_slots = 3;  // per device, at least kLeastActivationSlots; of what passes
  int token_slots = 1;       // per device that needs tokens; those that stay have one of them, and
                             // more where several are in use at once
  int spare_slots = 0;       // per device, of inputs that stay, beside those in use at once
  int spare_crossings = 0;   // likewise on the host, of those that cross it
  /// With clipping every update waits for all norms. In block order the next step's first weights
  /// are ready first; in the order of landing no update waits for the last gradient sum.
  bool updates_as_landed = false;
  /// With clipping: of the blocks that rest in DRAM, in the order in which sums land, so many are
  /// updated when theirs lands, as if the step would not be clipped. Where it is they are updated
  /// again, from what was there, which DRAM has until then.
  int updates_ahead = 0;
  /// Where the step takes its norm first (PlanQuestion::norm_first): the first block whose
  /// backwards run again. The sums of those before it wait for the norm, as without.
  int again_from = 0;
  /// Updates wait for the end of backward even without clipping, as ZeRO-Offload's optimizer does.
  bool updates_at_end = false;

  HomeCounts on_devices;                // what the search asks for; the writer sees homes only
  std::vector<BlockHome> chosen_homes;  // likewise, by block, in place of that; empty: none
  std::vector<BlockHome> homes;         // per block; empty: everything on the host
  /// With clipping, and where DRAM is short: the sums of so many blocks, the deepest, rest on the
  /// drives before any optimizer state does. Sums are written during backward, states are read and
  /// written during updates: with some of both the drives idle less.
  int sums_leave_first = 0;
  /// The blocks in the order in which their optimizer states leave DRAM, as far as they have to;
  /// empty: the deepest first.
  std::vector<BlockId> leaving;
  /// Updates that wait read W through slots and a queue of their own, so that the next forward's
  /// need not wait behind the last update's.
  bool updates_read_apart = false;
  std::vector<bool> activations_on_drive;  // per block, its input; empty: none
  ActivationPolicies policies =
      {};               // per block: kept on the device, elsewhere meanwhile, or computed again
  int saved_slots = 3;  // per device, of the ring through which what leaves it passes; DRAM has as
                        // many for what goes on to the drives
  Bytes left_free;      // of DRAM, beside what rests there
  /// Where DRAM has no room for all of a block's states, it may have some of their pieces.
  bool parts_states = false;
  StagingRoom staging;
  /// Where two devices have p2p, activations and their gradients go straight from who makes to who
  /// reads them, and so do a tied head's weights and sum and sums that another device goes on with.
  /// Else all of it is staged on the host.
  bool straight = false;
  /// The plan has the drives' place even if it has nothing for them: the plan beside it has.
  bool names_drives = false;

  bool uses_drives() const;
  /// DRAM is short: something rests on the drives, or sums pass through it in turn.
  bool spares_dram() const;
};

inline BlockHome home_of_block(const StreamSchedule& schedule, BlockId block) {
  return schedule.homes.empty() ? BlockHome{} : schedule.homes[block.index()];
}

/// The blocks that run on the device.
std::vector<bool> blocks_on(const Chain& chain, const StreamSchedule& schedule, int device);

inline constexpr int kNoDevice = -1;
inline constexpr int kSeveralDevices = -2;
/// By block: the one device of its visits, and of those that go backward.
struct BlockDevices {
  std::vector<int> all;
  std::vector<int> backward;
};
BlockDevices devices_of_blocks(const Chain& chain, const StreamSchedule& schedule);

/// By block: its micro-batches in flight on the device that has most of them. 0 where a backward
/// runs on another device than its forward.
KeptSlots kept_slots(const Chain& chain, const StreamSchedule& schedule);

/// A slot for any of what the blocks that run on a device send elsewhere between forward and
/// backward.
Bytes largest_leaving(const Chain& chain, const StreamSchedule& schedule,
                      const std::vector<bool>& runs);

/// The first block's tasks, of tokens, and the last one's, of labels.
inline bool reads_tokens(const Chain& chain, int block) {
  return block == 0 || block + 1 == static_cast<int>(chain.size());
}

/// A task that reads tokens.
struct TokenUse {
  int device;
  int micro_batch;

  auto operator<=>(const TokenUse&) const = default;
};

/// In the order of the visits.
std::vector<TokenUse> token_uses(const Chain& chain, std::span<const StageVisit> visits);

/// The most micro-batches whose tokens the device needs at once, from first to last use.
int tokens_in_use(std::span<const TokenUse> uses, int device);

/// The device's slots for what the schedule's forwards keep; `slots` are kept_slots() of the
/// schedule.
Bytes saved_bytes(const Chain& chain, const StreamSchedule& schedule, const KeptSlots& slots,
                  int device);

/// A backward task's input, the gradient it reads and the one it writes.
inline constexpr int kLeastActivationSlots = 3;

/// What a schedule's plan takes of a device, slots and workspace, as far as it is seen before it is
/// written: but for inputs that stay or come straight.
struct DeviceNeed {
  Bytes least;  // with a region that the largest visit fills
  Bytes roomy;  // with one that leaves any two neighbouring visits room
};

}  // namespace ferry
