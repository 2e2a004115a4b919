// Writes a plan task by task, in an order in which running them one after another would be right.
//
// The builder keeps names, values and instances; the edges that make the plan right on concurrent
// queues are added by order_accesses() (edges.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/device_block.h"
#include "plan/plan.h"
#include "plan/task_signature.h"
#include "planner/costs/chain.h"
#include "planner/costs/queues.h"

namespace ferry {

/// Only a plan that is looked at needs names: "W.3>gpu0", and "#1" behind it the second time.
enum class TaskNames { none, given };

class PlanBuilder {
 public:
  using Where = TaskSignatures::Where;

  /// Both must outlive the builder. Adds the machine's first `devices` devices, with `drives` its
  /// drives, and the blocks; every block is in stage 0 until set_stage(). `backwards`: how they
  /// list what they read and write.
  PlanBuilder(const PlanQuestion& question, const Chain& chain, const std::string& strategy,
              const Listing& backwards, int devices, bool drives = false);
  PlanBuilder(const PlanBuilder&) = delete;
  PlanBuilder& operator=(const PlanBuilder&) = delete;

  const Queues& queues() const { return queues_; }
  const DeviceQueues& device(int k) const { return queues_.devices[k]; }
  /// The queue straight from one device to another, made on first use.
  ResourceId between(int from, int to, Cargo cargo);
  /// The device's queue of weights that come up as soon as they are updated, which other weights
  /// would stand behind; made on first use.
  ResourceId renewals_up(int device);
  void set_stage(BlockId block, int stage);
  /// StreamSchedule::again_from; of no meaning unless the step takes its norm first.
  void set_again_from(int block);

  /// The value, made on first use. `index`: its micro-batch, of S.b its piece; -1: none.
  ValueId value(ValueKind kind, BlockId block, int index);
  Bytes bytes(ValueId value) const;
  const IdVector<ValueId, Value>& values() const { return plan_.values; }

  /// The instance of a value in a slot, made on first use.
  InstanceId instance(ValueId value, PlaceId place, Bytes offset, bool home = false);

  /// Lays out W.b and S.b of all blocks in block order from the place's first byte, 4096-aligned,
  /// as home instances. The same for every mode and strategy. Returns where they end. Requires:
  /// values R.b and O.b are made, for the tasks' signatures are settled here. S.b is in pieces, in
  /// order, where the last of them is on drives.
  Bytes lay_out_home(PlaceId place);
  /// The same with each value at the place that `place_of` gives it; where each place's homes end.
  std::map<PlaceId, Bytes> lay_out_homes(
      const std::function<PlaceId(ValueKind kind, BlockId block, int piece)>& place_of);
  InstanceId home(ValueKind kind, BlockId block, int piece = -1) const;

  /// Appends a task; what it reads and writes comes from its signature
  /// (plan/task_signature.h). `where` says where each value is and may append the copies that bring
  /// it there. A forward that `keeps` writes K.b.m, and a backward does not recompute what it
  /// keeps. Requires: homes are laid out.
  void load(int micro_batch, InstanceId to);
  void forward(BlockId block, int micro_batch, int device, bool keeps, const Where& where);
  void backward(BlockId block, int micro_batch, int device, bool keeps, const Where& where);
  /// Copies get their bytes from the value.
  void copy(ResourceId queue, InstanceId from, InstanceId to);
  /// A copy of weights that nothing has to do where the step before was not clipped.
  void refresh(ResourceId queue, InstanceId from, InstanceId to);
  /// Norms and losses are read in the order in which their instances were made.
  void clip(const Where& where);

  /// What an update works on; `sum` is R.b if there is one, else G.b; `scale` is C, or none;
  /// `original` is O.b, or none.
  struct UpdateInstances {
    InstanceId weights, states, sum, scale, original;
  };
  /// `piece`: of S.b, on the host; `states` is where that is. -1: all of S.b.
  void update(BlockId block, ResourceId queue, const UpdateInstances& instances, int piece = -1);
  /// Of an update on the host ahead of the norm. Takes no time: a step that is not clipped is what
  /// a plan predicts.
  void redo(BlockId block, const UpdateInstances& instances);
  /// The same where weights and states are at home.
  void update(BlockId block, ResourceId queue, InstanceId sum, InstanceId scale);

  /// Removes copies of activations and sums that nobody reads, then instances and values that
  /// nothing uses, and places what is unplaced on the host (host_slots.h) from `host_end` on. Then
  /// sets the workspaces. `gradient_slots`: how many dA.b.m of one micro-batch are on the host at
  /// once.
  void settle(Bytes host_end, int gradient_slots, TaskNames names);

  /// Hands the plan over, without edges.
  Plan finish();

 private:
  /// A task with what it reads and writes; not yet in the plan, so that copies come before it.
  Task make(Task task, bool keeps, const Where& where, const Listing& listing = {});
  Micros host_update(BlockId block, int piece) const;
  Task make_update(TaskKind kind, BlockId block, const UpdateInstances& instances, int piece = -1);
  void name_tasks();
  void drop_unread_copies();
  void drop_unused_instances();
  void set_workspaces();
  std::size_t position_of(ValueKind kind, BlockId block, int index) const;

  const PlanQuestion& question_;
  const Chain& chain_;
  const Listing backwards_;
  Plan plan_;
  std::optional<TaskSignatures> signatures_;  // once all weights are there
  Queues queues_;
  // What was made so far, found without a search: a plan is written thousands of times per
  // question.
  std::vector<ValueId> values_;           // [kind][block][index], the last two with "none" first
  std::size_t indices_ = 0;               // of a kind and block, "none" too
  IdVector<ValueId, InstanceId> latest_;  // of each value's instances
  IdVector<InstanceId, InstanceId> one_before_;  // of the same value
  IdVector<ValueId, InstanceId> home_;           // none: the value has no home
  std::map<std::tuple<int, int, Cargo>, ResourceId> between_;
  std::map<int, ResourceId> renewals_;  // by device
};

/// The slot of a norm, a loss or the clip's scale: a cache line.
inline constexpr Bytes kScalarSlot{64};

/// Alignment of slots on devices, and of home slots.
inline constexpr Bytes kSlotAlignment = kDeviceBlock;
inline constexpr Bytes kHomeAlignment{4096};

}  // namespace ferry
