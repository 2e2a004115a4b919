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

/// Blocks that go to one GPU together.
using Items = std::vector<std::vector<int>>;

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
  int size() const { return static_cast<int>(items_.size()); }
  int gpus() const { return machine_->size(); }
  int micro_batches() const { return micro_batches_; }

  double seconds(int item, int gpu) const {
    return seconds_[static_cast<std::size_t>(item)][static_cast<std::size_t>(gpu)];
  }
  const std::vector<std::vector<double>>& seconds() const { return seconds_; }
  double least_seconds(int item) const;
  Bytes resident(int item) const { return {resident_[static_cast<std::size_t>(item)]}; }
  /// Live beside what is resident while the item's heaviest block runs.
  Bytes peak(int item) const { return {peak_[static_cast<std::size_t>(item)]}; }

  /// The GPU of each block, given the GPU of each item.
  std::vector<int> gpu_of_block(const std::vector<int>& gpu_of_item) const;

 private:
  friend class LoadTracker;

  // A hyper-edge between items. `forward` bytes come to each GPU that consumes and has not the
  // producer, `gradient` bytes leave it.
  struct Edge {
    int producer = -1;
    std::vector<int> consumers;  // without the producer
    std::int64_t forward = 0;    // per step
    std::int64_t gradient = 0;
    std::int64_t replica = 0;  // memory at each other GPU
    bool leaves = true;        // the producer's GPU writes it once and reads one gradient
  };

  void add_edge(const Edge& edge);

  const BlockGraph* graph_;
  const MixedMachine* machine_;
  Items items_;
  int micro_batches_;
  std::vector<int> item_of_;
  std::vector<std::vector<double>> seconds_;
  std::vector<std::int64_t> resident_;
  std::vector<std::int64_t> peak_;
  std::vector<std::int64_t> step_up_;
  std::vector<std::int64_t> step_down_;
  std::vector<Edge> edges_;
  std::vector<std::vector<int>> produces_;  // edges by producer
  std::vector<std::vector<int>> consumes_;
};

/// Loads of a partial assignment. Placing an item never lowers any of them. Must not outlive its
/// model.
class LoadTracker {
 public:
  explicit LoadTracker(const LoadModel& model);

  /// Requires: the item is not placed.
  void place(int item, int gpu);
  /// Takes back the last placed item.
  void undo();
  void clear();

  double compute(int gpu) const { return compute_[static_cast<std::size_t>(gpu)]; }
  /// Context, resident bytes and replicas, and the largest peak. What stages add by holding inputs
  /// of several micro-batches is in mixed_memory.h.
  Bytes memory(int gpu) const;
  bool within(const std::vector<Bytes>& budgets) const;

  /// Seconds of one micro-batch in the steady state: the longest of all rows.
  double period() const;
  /// The longest row of the links alone.
  double traffic_seconds() const;
  /// Bytes over all GPUs' links in one step, in both directions.
  Bytes step_bytes() const;
  Bytes step_in(int gpu) const { return {in_[static_cast<std::size_t>(gpu)]}; }
  Bytes step_out(int gpu) const { return {out_[static_cast<std::size_t>(gpu)]}; }

 private:
  struct Placed {
    int item;
    int gpu;
    double compute;  // of the GPU, before
    std::int64_t peak;
  };

  // Adds (sign 1) or takes back (-1) one destination, or the producer's own share.
  void cross(const LoadModel::Edge& edge, int from, int to, int sign);
  void leave(const LoadModel::Edge& edge, int from, int sign);
  void link(int item, int gpu, int sign);
  int& readers(int edge, int gpu) {
    return readers_[static_cast<std::size_t>(edge) * gpus_ + static_cast<std::size_t>(gpu)];
  }

  const LoadModel* model_;
  std::size_t gpus_;
  std::vector<int> gpu_of_;        // of each item, -1: not placed
  std::vector<int> readers_;       // placed consumers of each edge on each GPU
  std::vector<int> destinations_;  // of each edge: GPUs other than the producer's
  std::vector<double> compute_;
  std::vector<std::int64_t> resident_;
  std::vector<std::int64_t> peak_;
  std::vector<std::int64_t> in_;
  std::vector<std::int64_t> out_;
  std::vector<std::int64_t> inside_;  // of each shared link: bytes between two GPUs below it
  std::vector<Placed> placed_;
};

/// The loads of a whole assignment: gpu_of_item has one GPU per item.
LoadTracker load_of(const LoadModel& model, const std::vector<int>& gpu_of_item);

}  // namespace ferry
