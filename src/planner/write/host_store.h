// The host's side of a plan: where states, gradient sums and checkpoints rest, in DRAM or
// on the drives, and what values of the drives pass through.
//
// Values of the drives come to the host through regions, one per kind of value (staging.h); what
// still lies there is not read again.
#pragma once

#include <map>
#include <vector>

#include "planner/write/builder.h"
#include "planner/write/residence.h"
#include "planner/write/slot_pool.h"
#include "planner/write/staging.h"
#include "planner/write/stream_schedule.h"

namespace ferry {

class HostStore {
 public:
  /// Lays out the homes, those on devices too. All must outlive the store.
  HostStore(PlanBuilder& builder, const Chain& chain, const StreamSchedule& schedule,
            const Residence& residence);

  /// A host slot of its own for a small value, made on first use.
  InstanceId scalar(ValueKind kind, BlockId block, int micro_batch);
  InstanceId tokens(int micro_batch) { return scalar(ValueKind::tokens, {}, micro_batch); }

  /// W.b on the host, read from the drives when it rests there and its slot is gone.
  InstanceId weight(BlockId block);

  /// Where a gradient sum lands, G.b or R.b; `waits`: something comes between landing and its next
  /// use.
  InstanceId land_sum(ValueKind kind, BlockId block);
  void sum_landed(ValueKind kind, BlockId block, bool waits);
  /// The sum on the host, for the next visit that adds to it or for its update.
  InstanceId sum(ValueKind kind, BlockId block);

  /// The host's instance of a checkpoint, a boundary gradient or what forward kept to write, and
  /// what follows the copy. What stays on the device that reads it has a slot until it is read.
  InstanceId land_activation(ValueId value);
  void activation_landed(ValueId value);
  /// The same to read.
  InstanceId activation(ValueId value);

  /// Appends U.b with its reads from and writes to the drives. `scale`: C, or none; a block that is
  /// updated ahead of the norm has both, the second time for its redo.
  void update(BlockId block, InstanceId scale);

  /// Where the homes end that are at the place.
  Bytes homes_end(PlaceId place) const;

  /// Where slots of its own and regions end; checkpoints in DRAM and what crosses it come behind
  /// (PlanBuilder::settle).
  Bytes end() const { return end_; }

 private:
  const BlockHome& home_of(BlockId block) const { return homes_[block]; }
  bool swaps_to_drive(BlockId block) const;
  bool rests_on_drive(ValueId activation) const;
  bool crosses(ValueId activation) const;
  StagingRegion& region_of(ValueId activation);
  InstanceId on_host(ValueId value, Bytes offset);
  InstanceId on_drive(ValueId value);
  StagingRegion make_region(Bytes size);
  Bytes room_in(StagingRegion& region, ValueId value);
  /// The value in its region, read from `home` unless it still is there.
  InstanceId staged(StagingRegion& region, ValueId value, InstanceId home, ResourceId queue);
  InstanceId state(BlockId block, int piece);
  void update_from_drives(BlockId block, PlanBuilder::UpdateInstances instances);
  InstanceId weight_to_update(BlockId block);

  PlanBuilder& builder_;
  const Chain& chain_;
  const StreamSchedule& schedule_;
  const Residence& residence_;
  IdVector<BlockId, BlockHome> homes_;
  std::map<PlaceId, Bytes> home_ends_;
  Bytes end_;        // of the host's slots so far
  Bytes drive_end_;  // likewise
  StagingRegion weights_{{}, {}};
  StagingRegion states_{{}, {}};
  StagingRegion updated_{{}, {}};  // W, where updates read it apart
  StagingRegion sums_{{}, {}};
  StagingRegion activations_{{}, {}};
  StagingRegion saved_{{}, {}};
  SlotPool crossing_;
  std::map<ValueId, Bytes> landed_;       // in the pool and not read yet
  std::map<ValueId, Bytes> own_slots_;    // on the host
  std::map<ValueId, Bytes> drive_slots_;  // beside homes
};

}  // namespace ferry
