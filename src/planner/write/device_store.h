// A device's side of a plan: the slots of what rests there from step to step, those of what stays
// until its last reader is done, and those through which everything else passes.
//
// From the first byte on: [homes][weights that stay][region of weights and sums that pass]
// [activations that pass][tokens that pass][what forward keeps here, and sums that stay][what it
// keeps elsewhere][scalars][tokens that stay][inputs that stay or come straight from other
// devices]. Where forward keeps nothing here, sums that stay are beside weights that do.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "planner/write/allocate.h"
#include "planner/write/builder.h"
#include "planner/write/residence.h"
#include "planner/write/shared_region.h"
#include "planner/write/slot_pool.h"
#include "planner/write/stream_schedule.h"
#include "planner/write/value_offsets.h"

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
    Bytes limit;          // of the device
    Bytes workspace;      // of its kernels
    int activations = 0;  // that pass
    int tokens = 0;
    int tokens_in_use = 0;  // at once, of those that stay
    Bytes inputs;           // that stay or come straight, as far as it is known
    std::int64_t scalars = 0;
  };
  /// The region of visits takes what the rest leaves, at least what the largest visit needs.
  void lay_out(const Needs& needs, const StreamSchedule& schedule, const KeptSlots& kept_slots,
               const std::vector<bool>& runs);

  /// After lay_out().
  DeviceNeed needs() const { return needs_; }

  /// Where W.b, G.b or R.b is from step to step, if it stays; of G.b from lay_out() on.
  std::optional<InstanceId> staying(ValueKind kind, int block);
  /// What the visit needs of the region that passes.
  std::span<const ValueId> passing(std::size_t visit) const { return visits_[visit].values; }
  /// Where the visit has W.b, G.b or R.b.
  InstanceId in_visit(std::size_t visit, ValueKind kind, int block);

  /// Of activations, tokens and what forward keeps: what still lies in its slot.
  std::optional<InstanceId> find(ValueId value);
  /// A slot for it: until it is let go where it stays, else until the slot is the one that was used
  /// longest ago, but for those of `kept`.
  InstanceId take(ValueId value, std::span<const ValueId> kept);
  /// A slot for what comes straight from another device, until it is let go.
  InstanceId land(ValueId value);
  /// No later task reads it here before it comes anew.
  void let_go(ValueId value);

  /// Whether the region of visits is larger than it must be.
  bool has_roomy_region() const { return roomy_; }
  /// What the inputs that stay or come straight have taken so far.
  Bytes inputs() const { return inputs_.end() - inputs_first_; }

  /// A slot of its own for a small value.
  InstanceId scalar(ValueKind kind, BlockId block, int micro_batch);

 private:
  SlotPool* pool_of(ValueId value);  // none: it has a ring
  std::vector<Stay> kept_here(const StreamSchedule& schedule, const KeptSlots& kept_slots,
                              const std::vector<bool>& runs) const;
  /// G.b, or R.b, has slots of its own.
  bool keeps(ValueKind sum, int block) const;
  std::vector<Stay> sums_here(const StreamSchedule& schedule) const;
  SlotRing& ring_of(ValueId value);
  InstanceId hold(ValueId value, SlotPool& pool);
  InstanceId at(ValueId value, Bytes offset) { return builder_.instance(value, place_, offset); }

  PlanBuilder& builder_;
  const Chain& chain_;
  const Residence& residence_;
  const int device_;
  const PlaceId place_;
  Bytes region_;      // its first byte
  ValueOffsets own_;  // slots of single values that stay
  std::vector<VisitMemory> visits_;
  SlotRing activations_{{}, {}, 0};
  SlotRing tokens_{{}, {}, 0};
  std::map<BlockId, SlotPool> kept_;
  SlotRing saved_{{}, {}, 0};  // what forward kept and rests elsewhere
  Bytes scalars_end_;
  SlotPool staying_tokens_{{}, {}, 0};
  SlotPool inputs_{{}, {}, 0};
  Bytes inputs_first_;
  ValueOffsets held_;  // by one of the pools
  bool roomy_ = false;
  DeviceNeed needs_;
};

}  // namespace ferry
