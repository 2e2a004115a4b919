// What a schedule's homes mean for each device: which values rest there, which stay there, and who
// updates a block.
#pragma once

#include <vector>

#include "planner/costs/chain.h"
#include "planner/costs/question.h"
#include "planner/write/stream_schedule.h"

namespace ferry {

class Residence {
 public:
  /// All three must outlive it. Requires: the visits of a block that is at home on a device are all
  /// there, and the backwards of one whose sum waits.
  Residence(const PlanQuestion& question, const Chain& chain, const StreamSchedule& schedule);

  BlockHome home(int block) const { return home_of_block(schedule_, block); }

  /// The device that runs all of the block's visits, or its backwards; -1: there are several.
  int device(int block) const { return devices_.all[block]; }
  int backward_device(int block) const { return devices_.backward[block]; }

  /// W and S are at home on the device.
  bool at_home(int device, int block) const {
    return home(block).on_device && devices_.all[block] == device;
  }
  /// And it updates them.
  bool updates(int device, int block) const {
    return trains_ && chain_.blocks[block].trainable && at_home(device, block);
  }
  /// W has a slot of its own on the device, though it is at home elsewhere.
  bool keeps_weight(int device, int block) const;
  /// The block's sum does not leave the device before it is whole.
  bool gathers_sum(int device, int block) const {
    return (home(block).on_device || home(block).sum_waits) && devices_.backward[block] == device;
  }
  /// And has a slot of its own there. One that waits for nothing is gone with its visit, and so is
  /// one whose rounded sum waits in its place.
  bool keeps_sum(int device, int block) const;

  /// The block's last backward rounds its sum to R, by which the block is updated: by the host, or
  /// by a device where the sum of a single visit passes. A device rounds other sums as it updates.
  bool rounds(int block) const;
  /// What the block's update reads: R or G.
  ValueKind update_sum(int block) const {
    return rounds(block) ? ValueKind::rounded : ValueKind::gradient;
  }
  /// With clipping: the host updates the block when its sum lands, ahead of the norm, and keeps
  /// what was there in O.
  bool updates_ahead(int block) const { return updates_ahead_[block]; }
  /// The block's new W comes up at once to where it stays; with clipping ahead of the norm.
  bool renews_at_once(int block) const;
  /// No visit adds to a sum that another began, so none comes down before it is whole.
  bool lands_whole(int block) const { return backward_visits_[block] <= 1; }
  /// What comes down of the block's sum is not used at once: it waits for the norm, for the end of
  /// backward, for another visit, or for the block whose weights a tied head reads.
  bool sum_waits_on_host(int block) const {
    const bool waits = (updates_wait(block) && !lands_behind_norm(block)) || updates_last(block);
    return waits || !lands_whole(block) || chain_.blocks[block].reads_weight.valid();
  }
  /// Where the step takes its norm first: the sum is in DRAM when the norm is known, so that its
  /// backwards need not run again.
  bool waits_in_place_of_again(int block) const {
    return question_.norm_first && sum_waits(block) && !lands_behind_norm(block);
  }
  /// R has a slot of its own on the device.
  bool keeps_rounded(int device, int block) const {
    return rounds(block) && gathers_sum(device, block);
  }

  /// A.b.m lies on the device from when it is there until nobody there reads it any more.
  bool keeps_input(int device, int block) const {
    return home(block).input_stays && devices_.all[block] == device;
  }
  /// dA.b.m likewise, which the backward of the block below reads.
  bool keeps_input_gradient(int device, int block) const {
    return home(block).input_stays && devices_.backward[block - 1] == device;
  }

  /// What some blocks' forwards make stays on their devices for backward.
  bool keeps_activations() const { return keeps_activations_; }

  /// The most that a task on the device takes beside what it reads and writes.
  Bytes workspace(int device) const;

  /// The block's update waits for the norm, or for the end of backward.
  bool updates_wait(int block) const { return sum_waits(block) || schedule_.updates_at_end; }
  /// Nothing else keeps it waiting, but it comes behind the updates of other blocks.
  bool updates_last(int block) const {
    return home(block).sum_waits_in_dram && !updates_wait(block);
  }
  /// Updates read W through slots and a queue of their own, if any waits: then the first block's
  /// does.
  bool reads_apart() const { return schedule_.updates_read_apart && updates_wait(0); }

 private:
  bool reads_weight(const StageVisit& visit, int block) const;
  bool sum_waits(int block) const {
    return question_.clips && !(question_.norm_first && block >= schedule_.again_from);
  }
  /// Its sum stays on its device until then.
  bool lands_behind_norm(int block) const {
    return question_.norm_first && gathers_sum(devices_.backward[block], block);
  }
  bool may_update_ahead(int block) const;
  void choose_updates_ahead();

  const PlanQuestion& question_;
  const Chain& chain_;
  const StreamSchedule& schedule_;
  const bool trains_;
  const bool keeps_activations_;
  const BlockDevices devices_;
  std::vector<int> backward_visits_;  // by block
  std::vector<bool> updates_ahead_;
  std::vector<std::vector<bool>> reads_weight_;  // by device and block, tied heads included
};

}  // namespace ferry
