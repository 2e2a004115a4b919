// A training step as data: values, where each lives, and the tasks that compute, copy and update
// them.
//
// A plan is a program of in-order queues: every Resource runs its tasks one at a time, in the order
// in which they stand in Plan::tasks; `after` and `after_previous` order tasks of different
// resources. Nothing else orders anything. Plain data: no tensors, devices, threads or callbacks.
// Text form: docs/formats/plan.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fair_share.h"
#include "base/ids.h"
#include "base/short_vector.h"
#include "base/units.h"
#include "spec/block_id.h"
#include "spec/precision.h"

namespace ferry {

// Indices into the plan's own vectors, beside BlockId and PoolId (base/fair_share.h).
using ValueId = Id<struct ValueTag>;
using PlaceId = Id<struct PlaceTag>;
using ResourceId = Id<struct ResourceTag>;
using InstanceId = Id<struct InstanceTag>;
using TaskId = Id<struct TaskTag>;

enum class PlanMode { train, evaluate };  // evaluate: forward only, the head yields the loss

/// One block of the model's chain, as far as a plan has to know it.
struct PlanBlock {
  std::string kind;       // "embedding", "attention", "mlp", "norm", "head"
  int stage = 0;          // consecutive blocks with one stage run as one
  bool trainable = true;  // has weights of its own, updated once per step
  bool fused = false;     // the loss head: its backward is its forward too (train mode)
  // A tied head also reads this block's weights and adds to its gradient.
  BlockId reads_weight{};
};

enum class ValueKind {
  weight,               // W.b    compute weights of block b (bf16: the hi half; fp32: the master)
  state,                // S.b    optimizer state of block b (bf16: lo16, m, v; fp32: m, v), or in
                        //        pieces S.b.0, S.b.1, ... (spec/layout.h)
  gradient,             // G.b    fp32 gradient sum of block b over the step's micro-batches
  norm,                 // N.b    squared norm of G.b, one double
  activation,           // A.b.m  input of block b for micro-batch m, [B, T, hidden]
  activation_gradient,  // dA.b.m gradient of A.b.m
  tokens,               // X.m    token ids and labels of micro-batch m
  loss,                 // L.m    loss of micro-batch m, one fp32
  clip,                 // C      the step's gradient scale, one fp32
  saved,                // K.b.m  what forward of block b keeps for backward of micro-batch m
  rounded,              // R.b    the finished G.b rounded once to bf16, where the plan does so
  original,             // O.b    W.b and S.b as an update ahead of the step's norm found them
};

struct Value {
  ValueKind kind = ValueKind::weight;
  BlockId block;         // none where the kind has none
  int micro_batch = -1;  // -1 where the kind has none
  Bytes bytes;
  int piece = -1;  // of a block's state; -1: it is whole
};

enum class PlaceKind { device, host, drive };

/// One memory. Requires: every instance ends at or before budget - workspace.
struct Place {
  std::string name;  // "gpu0", "host", "ssd0"
  PlaceKind kind = PlaceKind::device;
  Bytes budget;
  Bytes workspace;  // what its kernels allocate at most beside the instances
};

/// A rate that running tasks share: a link's direction, a root complex's total, the host's cores.
struct Pool {
  std::string name;      // "gpu0.up", "root0.down", "cores"
  double capacity = 0;   // bytes per second, or cores
  bool in_turn = false;  // copies that draw on it run one at a time: base/turns.h
};

enum class ResourceKind { compute, copy, host };

/// One in-order queue: a device's compute, one direction of its copies for one purpose, a host
/// worker.
struct Resource {
  std::string name;  // "gpu0.compute", "gpu0.weights_up", "host.update"
  ResourceKind kind = ResourceKind::compute;
  PlaceId place;            // the device it belongs to, or the host
  double rate = 0;          // copy: bytes per second at full speed
  Micros latency;           // copy: added to every task
  std::vector<Draw> draws;  // what a running task takes from Plan::pools at full speed
};

/// A value at a place, in the slot [offset, offset + value.bytes).
struct Instance {
  ValueId value;
  PlaceId place;
  Bytes offset;
  bool home = false;  // holds its value before the first step: weights and states at rest
};

enum class TaskKind {
  load,      // host: writes X.m from the token file
  forward,   // compute: reads W.b and A.b.m (embedding: X.m), writes A.(b+1).m; head in evaluate
             // mode: L.m. May also write K.b.m
  backward,  // compute: reads W.b, A.b.m, dA.(b+1).m, after the first micro-batch G.b; writes G.b,
             // dA.b.m, with the last micro-batch N.b, and R.b if the plan has it; the fused head
             // writes L.m. Recomputes what forward did, unless it reads K.b.m
  copy,      // copy: reads one instance, writes another of the same value at another place
  clip,      // host, once: reads every N.b and L.m; writes C when the step clips
  update,    // host or compute: reads W.b, S.b, R.b if the plan has it, else G.b (and C when the
             // step clips), writes W.b, S.b. If the plan has O.b, on the host: ahead of C, as if
             // that were 1; writes O.b, too. Of S.b in pieces: one of each, in order, on the host,
             // which writes those elements of W.b
  redo,      // host: reads W.b, S.b, O.b, R.b or G.b, and C; writes W.b, S.b: nothing where C is 1,
             // else the update again, of O.b
  work,      // anything else that takes time, on any resource; in timing-only plans
};

/// What a task names. Plans have thousands of tasks, and few of them name more.
template <typename IdType>
using FewIds = ShortVector<IdType, 6>;

struct Task {
  std::string name;  // unique, without spaces: "F.3.0", "B.3.0", "W.3>gpu0", "U.3"
  TaskKind kind = TaskKind::copy;
  ResourceId resource;
  BlockId block;
  int micro_batch = -1;
  int piece = -1;  // of an update: which piece of S.b; -1: all of it
  /// Of a copy of W.b: it does nothing where the step before has left what it would write. With
  /// clipping the host updates W.b ahead of C, and that was so if C is 1. Plans predict such steps.
  bool refreshes = false;
  FewIds<InstanceId> reads;
  FewIds<InstanceId> writes;
  FewIds<TaskId> after;           // tasks of the same step
  FewIds<TaskId> after_previous;  // tasks of the step before
  Micros micros;    // predicted duration at full speed; for a copy beside latency + bytes / rate
  Bytes bytes;      // moved by a copy
  Bytes workspace;  // allocated beside the instances while it runs
};

struct Plan {
  PlanMode mode = PlanMode::train;
  std::string strategy;
  int micro_batches = 1;
  int micro_batch_size = 1;
  int sequence = 1;
  Precision precision = Precision::fp32;
  /// What updates take of a block's gradient sum: the sum as it is, or rounded once to bf16. Then
  /// host updates read R.b; a device update may read G.b and round it itself.
  Precision gradients = Precision::fp32;
  bool clips = false;  // updates read C
  /// Of a step that clips: backwards run again once C is known. Sums of the blocks from
  /// `again_from` on are at first for their norms alone and dropped; those of the second time are
  /// the same, and need not wait. The sums of the blocks before it wait for C; those backwards run
  /// once.
  bool norm_first = false;
  int again_from = 0;  // a block
  int staleness = 0;   // forward and backward read weights with all but this many updates applied
  /// A paper's program as it stands: tasks with durations and an order, but no values. It can be
  /// simulated, not trained; of the rules, 0 and 1 apply. Tasks may be of any kind on any resource
  /// (copies on copies' only), and `block` may name the first block of a stage.
  bool timing_only = false;

  IdVector<BlockId, PlanBlock> blocks;
  IdVector<PoolId, Pool> pools;
  IdVector<PlaceId, Place> places;
  IdVector<ResourceId, Resource> resources;
  IdVector<ValueId, Value> values;
  IdVector<InstanceId, Instance> instances;
  IdVector<TaskId, Task> tasks;
};

/// "W.3", "A.3.0", "C": the value's name in the text form and in messages.
std::string value_name(const Value& value);

/// "W.3@gpu0", or "W.3@gpu0#1" for the second instance of a value at a place. Requires: a valid id.
/// O(instances); for messages and for writing a plan use instance_names().
std::string instance_name(const Plan& plan, InstanceId id);
IdVector<InstanceId, std::string> instance_names(const Plan& plan);

/// The end of the last slot at `place`: what its memory must hold beside the workspace.
Bytes slots_end(const Plan& plan, PlaceId place);

/// What `place` takes of its memory: slots and workspace. Devices hand out whole blocks of 512
/// bytes.
Bytes peak_bytes(const Plan& plan, PlaceId place);

/// What `place` takes where several plans take turns: slots are taken once, the most that any plan
/// has, and the most workspace comes beside them. Requires: equal places.
Bytes peak_bytes(std::span<const Plan* const> plans, PlaceId place);

/// The plan with the durations of a step that is clipped: each redo takes what its update took, and
/// what refreshes copies.
Plan clipped(Plan plan);

/// Whether the block's backwards run twice, at first for the norm alone.
inline bool runs_again(const Plan& plan, BlockId block) {
  return plan.norm_first && block.number() >= plan.again_from;
}

/// Whether the step's norm is known only when the block's sum is: its update waits for it, or is
/// ahead of it and may be redone.
inline bool sum_waits(const Plan& plan, BlockId block) {
  return plan.clips && !runs_again(plan, block);
}

/// What the task copies, as predicted: nothing where it refreshes.
Bytes moved_bytes(const Task& task);

/// Whether it copies straight from one device to another.
bool goes_between_devices(const Plan& plan, const Task& task);

/// How long `task` takes when nothing slows it: micros, and for a copy latency + bytes / rate.
Micros full_speed_time(const Plan& plan, const Task& task);

/// Writes the text form. Equal plans give equal texts.
std::string to_text(const Plan& plan);
/// What the text of every plan begins with.
inline constexpr const char* kPlanHeader = "ferry-plan";

/// Reads the text form. `origin` names it in errors. Throws UserError with line, expected and
/// found. The result is well formed (ids in range, names unique) but not verified; see
/// plan/verify.h.
Plan parse_plan(std::string_view text, const std::string& origin);

Plan read_plan(const std::filesystem::path& file);
void write_plan(const Plan& plan,
                const std::filesystem::path& file);  // temporary name, then rename

}  // namespace ferry
