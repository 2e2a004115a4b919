// What an assignment of blocks to GPUs loads: compute seconds, bytes on every link, memory.
//
// The period is the busiest GPU's compute or the busiest link's occupancy, whichever is longer:
// ferry's objective, not FTPipe's. Traffic is kept in whole bytes per step, so that placing and
// taking back in any order gives equal sums.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/mixed/block_graph.h"

namespace ferry {

using ItemGpus = IdVector<ItemId, GpuId>;  // the GPU of each item
using GpuBytes = IdVector<GpuId, Bytes>;   // a size for each GPU
using ItemSeconds = IdVector<ItemId, IdVector<GpuId, double>>;

/// What lies on a GPU from step to step, and what each step brings.
struct LoadRules {
  int micro_batches = 1;          // M
  bool streamed_weights = false;  // W and G live in host memory and visit; else they stay
  bool states_on_gpu = false;     // the optimizer runs on the GPU: S stays there too
};

/// The graph in terms of items: immutable once made, shared by all searches over its assignments.
class LoadModel {
 public:
  /// Requires: every block is in exactly one item. `rematerialised`: one flag per tensor, or empty:
  /// such a tensor is produced again wherever it is read and crosses no link; its seconds, below a
  /// transfer's by rematerialised_tensors(), are left out here.
  LoadModel(const BlockGraph& graph, const MixedMachine& machine, Items items,
            const LoadRules& rules, const std::vector<char>& rematerialised);

  const BlockGraph& graph() const { return *graph_; }
  const MixedMachine& machine() const { return *machine_; }
  const Items& items() const { return items_; }
  int gpus() const { return machine_->size(); }
  IdRange<GpuId> gpu_ids() const { return machine_->gpus.ids(); }
  int micro_batches() const { return micro_batches_; }

  double seconds(ItemId item, GpuId gpu) const { return seconds_[item][gpu]; }
  const ItemSeconds& seconds() const { return seconds_; }
  double least_seconds(ItemId item) const;
  Bytes resident(ItemId item) const { return {resident_[item]}; }
  /// Live beside what is resident while the item's heaviest block runs.
  Bytes peak(ItemId item) const { return {peak_[item]}; }

  /// The GPU of each block, given the GPU of each item.
  IdVector<BlockId, GpuId> gpu_of_block(const ItemGpus& gpu_of_item) const;

 private:
  friend class LoadTracker;

  // A hyper-edge between items. `forward` bytes come to each GPU that consumes and has not the
  // producer, `gradient` bytes leave it.
  struct Edge {
    ItemId producer;
    std::vector<ItemId> consumers;  // without the producer
    std::int64_t forward = 0;       // per step
    std::int64_t gradient = 0;
    std::int64_t replica = 0;  // memory at each other GPU
    bool leaves = true;        // the producer's GPU writes it once and reads one gradient
  };

  using EdgeId = Id<struct EdgeTag>;

  /// Adds `amounts` as an edge between the items of these blocks; none inside one item.
  void add_edge(BlockId producer, const std::vector<BlockId>& consumers, Edge amounts);

  const BlockGraph* graph_;
  const MixedMachine* machine_;
  Items items_;
  int micro_batches_;
  IdVector<BlockId, ItemId> item_of_;
  ItemSeconds seconds_;
  IdVector<ItemId, std::int64_t> resident_;
  IdVector<ItemId, std::int64_t> peak_;
  IdVector<ItemId, std::int64_t> step_up_;
  IdVector<ItemId, std::int64_t> step_down_;
  IdVector<EdgeId, Edge> edges_;
  IdVector<ItemId, std::vector<EdgeId>> produces_;  // edges by producer
  IdVector<ItemId, std::vector<EdgeId>> consumes_;
};

/// Loads of a partial assignment. Placing an item never lowers any of them. Must not outlive its
/// model.
class LoadTracker {
 public:
  explicit LoadTracker(const LoadModel& model);

  /// Requires: the item is not placed.
  void place(ItemId item, GpuId gpu);
  /// Takes back the last placed item.
  void undo();
  void clear();

  double compute(GpuId gpu) const { return compute_[gpu]; }
  /// Context, resident bytes and replicas, and the largest peak. What stages add by holding inputs
  /// of several micro-batches is in mixed_memory.h.
  Bytes memory(GpuId gpu) const;
  bool within(const GpuBytes& budgets) const;

  /// Seconds of one micro-batch in the steady state: the longest of all rows.
  double period() const;
  /// The longest row of the links alone.
  double traffic_seconds() const;
  /// Bytes over all GPUs' links in one step, in both directions.
  Bytes step_bytes() const;
  Bytes step_in(GpuId gpu) const { return {in_[gpu]}; }
  Bytes step_out(GpuId gpu) const { return {out_[gpu]}; }

 private:
  struct Placed {
    ItemId item;
    GpuId gpu;
    double compute;  // of the GPU, before
    std::int64_t peak;
  };

  // Adds (sign 1) or takes back (-1) one destination, or the producer's own share.
  using EdgeId = LoadModel::EdgeId;

  void cross(const LoadModel::Edge& edge, GpuId from, GpuId to, int sign);
  void leave(const LoadModel::Edge& edge, GpuId from, int sign);
  void link(ItemId item, GpuId gpu, int sign);
  int& readers(EdgeId edge, GpuId gpu) {
    return readers_[edge.index() * compute_.size() + gpu.index()];
  }

  const LoadModel* model_;
  ItemGpus gpu_of_;                     // none: not placed
  std::vector<int> readers_;            // placed consumers of each edge on each GPU
  IdVector<EdgeId, int> destinations_;  // GPUs other than the producer's
  IdVector<GpuId, double> compute_;
  IdVector<GpuId, std::int64_t> resident_;
  IdVector<GpuId, std::int64_t> peak_;
  IdVector<GpuId, std::int64_t> in_;
  IdVector<GpuId, std::int64_t> out_;
  std::vector<std::int64_t> inside_;  // of each shared link: bytes between two GPUs below it
  std::vector<Placed> placed_;
};

/// The loads of a whole assignment: gpu_of_item has one GPU per item.
LoadTracker load_of(const LoadModel& model, const ItemGpus& gpu_of_item);

}  // namespace ferry
