// A device's side of a streaming plan: the slots of what rests there from step to step, and those
// through which everything else passes.
//
// From the first byte on: [homes][slots of single values that stay][region of weights and sums that
// pass][activations][tokens][what forward keeps here][what it keeps elsewhere][scalars].
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "planner/write/allocate.h"
#include "planner/write/builder.h"
#include "planner/write/residence.h"
#include "planner/write/slot_pool.h"
#include "planner/write/stream_schedule.h"

namespace ferry {

class DeviceStore {
 public:
  /// Gives what stays its slots, behind the homes. The first three must outlive the store.
  DeviceStore(PlanBuilder& builder, const Chain& chain, const Residence& residence, int device,
              Bytes homes_end);

  /// The device's next visit of a stage; its number. Until lay_out().
  std::size_t add_visit();
  /// The latest visit needs W.b, G.b or R.b, unless it stays.
  void need(ValueKind kind, int block);

  struct Needs {
    Bytes limit;      // of the device
    Bytes workspace;  // of its kernels
    int activations = 0;
    int tokens = 0;
    std::int64_t scalars = 0;
  };
  /// The region of visits takes what the rest leaves, at least what the largest visit needs.
  void lay_out(const Needs& needs, const StreamSchedule& schedule, const KeptSlots& kept_slots,
               const std::vector<bool>& runs);

  /// Where W.b, G.b or R.b is from step to step, if it stays.
  std::optional<InstanceId> staying(ValueKind kind, int block);
  /// What the visit needs of the region that passes.
  std::span<const ValueId> passing(std::size_t visit) const { return visits_[visit].values; }
  /// Where the visit has W.b, G.b or R.b.
  InstanceId in_visit(std::size_t visit, ValueKind kind, int block);

  /// Of activations and tokens: what still lies in its slot, or a slot for it.
  std::optional<InstanceId> find(ValueId value);
  InstanceId take(ValueId value, std::span<const ValueId> kept);

  /// K.b.m, kept here: a slot of the block's own until it is given back.
  InstanceId hold(ValueId value);
  InstanceId release(ValueId value);

  /// A slot of its own for a small value.
  InstanceId scalar(ValueKind kind, BlockId block, int micro_batch);

 private:
  SlotRing& ring_of(ValueId value);
  InstanceId at(ValueId value, Bytes offset) { return builder_.instance(value, place_, offset); }

  PlanBuilder& builder_;
  const Chain& chain_;
  const Residence& residence_;
  const int device_;
  const PlaceId place_;
  Bytes region_;                  // its first byte
  std::map<ValueId, Bytes> own_;  // slots of single values that stay
  std::vector<VisitMemory> visits_;
  SlotRing activations_{{}, {}, 0};
  SlotRing tokens_{{}, {}, 0};
  std::map<BlockId, SlotPool> kept_;
  std::map<ValueId, Bytes> held_;  // what forward kept here and backward has not read yet
  SlotRing saved_{{}, {}, 0};      // what forward kept and rests elsewhere
  Bytes scalars_end_;
};

}  // namespace ferry
