// Writes a plan task by task, in an order in which running them one after another would be right.
//
// The builder keeps names, values and instances; the edges that make the plan right on concurrent
// queues are added at the end by order_accesses() (edges.h).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "plan/plan.h"
#include "planner/costs/chain.h"
#include "planner/costs/queues.h"

namespace ferry {

class PlanBuilder {
 public:
  /// Both must outlive the builder. Adds the machine's first `devices` devices, with `drives` its
  /// drives, and the blocks;
  /// every block is in stage 0 until set_stage().
  PlanBuilder(const PlanQuestion& question, const Chain& chain, const std::string& strategy,
              int devices, bool drives = false);

  const Queues& queues() const { return queues_; }
  const DeviceQueues& device(int k) const { return queues_.devices[k]; }
  void set_stage(BlockId block, int stage);

  /// The value, made on first use.
  ValueId value(ValueKind kind, BlockId block, int micro_batch);
  Bytes bytes(ValueId value) const;
  const IdVector<ValueId, Value>& values() const { return plan_.values; }

  /// The instance of a value in a slot, made on first use.
  InstanceId instance(ValueId value, PlaceId place, Bytes offset, bool home = false);

  /// Lays out W.b and S.b of all blocks in block order from the place's first byte, 4096-aligned,
  /// as home instances. The same for every mode and strategy. Returns where they end.
  Bytes lay_out_home(PlaceId place);
  /// The same with each value at the place that `place_of` gives it; where each place's homes end.
  std::map<PlaceId, Bytes> lay_out_homes(
      const std::function<PlaceId(ValueKind kind, BlockId block)>& place_of);
  InstanceId home(ValueKind kind, BlockId block) const;

  /// Appends a task; its name comes from its kind. Copies get their bytes from the value. A forward
  /// that writes K.b.m keeps it, and a backward that reads it does not recompute.
  void load(int micro_batch, InstanceId to);
  void forward(BlockId block, int micro_batch, int device, std::vector<InstanceId> reads,
               std::vector<InstanceId> writes);
  void backward(BlockId block, int micro_batch, int device, std::vector<InstanceId> reads,
                std::vector<InstanceId> writes);
  void copy(ResourceId queue, InstanceId from, InstanceId to);
  void clip(std::vector<InstanceId> reads, InstanceId scale);
  void update(BlockId block, ResourceId queue, std::vector<InstanceId> reads);
  /// The same where weights and states are not at home.
  void update(BlockId block, ResourceId queue, InstanceId weights, InstanceId states,
              std::vector<InstanceId> reads);

  /// Removes copies of activations that nobody reads, then instances and values that nothing uses,
  /// and gives the host's activations at kUnplaced their slots from `host_end` on. Then sets the
  /// workspaces.
  /// `gradient_slots`: how many dA.b.m of one micro-batch are on the host at once.
  void settle(Bytes host_end, int gradient_slots);

  /// Adds all edges and hands the plan over.
  Plan finish();
  /// Hands the plan over without edges: enough to see whether it fits.
  Plan finish_unordered();

 private:
  bool keeps(const std::vector<InstanceId>& instances) const;
  Task& add(TaskKind kind, std::string name, ResourceId resource);
  void drop_unread_copies();
  void drop_unused_instances();
  void place_host_activations(Bytes host_end, int gradient_slots);
  void set_workspaces();

  const PlanQuestion& question_;
  const Chain& chain_;
  Plan plan_;
  Queues queues_;
  std::map<std::tuple<ValueKind, BlockId, int>, ValueId> values_;  // kind, block, micro-batch
  std::map<std::tuple<ValueId, PlaceId, std::int64_t>, InstanceId>
      instances_;  // value, place, offset
  std::map<std::pair<ValueKind, BlockId>, InstanceId> home_;
  std::unordered_map<std::string, int> names_;  // how often a copy's name was wanted
};

/// The offset of an activation on the host that settle() is to place.
inline constexpr Bytes kUnplaced{-1};

/// Alignment of slots on devices, and of home slots.
inline constexpr Bytes kSlotAlignment{512};
inline constexpr Bytes kHomeAlignment{4096};

}  // namespace ferry
