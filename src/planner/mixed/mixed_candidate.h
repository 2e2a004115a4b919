// One complete answer of Mixed-pipe: where every block is, the stages that follow, and what they
// load and hold.
#pragma once

#include <functional>
#include <vector>

#include "planner/mixed/block_graph.h"
#include "planner/mixed/mixed_load.h"
#include "planner/mixed/mixed_memory.h"
#include "planner/mixed/mixed_stages.h"

namespace ferry {

struct MixedCandidate {
  Placement placement;
  MixedStages stages;  // in topological order
  StagesHold holds;
  IdVector<GpuId, double> compute;  // seconds per micro-batch, recomputed tensors too
  GpuBytes memory;
  Bytes step_bytes;   // over all GPUs' links
  double period = 0;  // seconds per micro-batch: the busiest GPU or link
};

/// The caller's time of a step, in seconds: a simulation, say. Called only with candidates that
/// fit. Must be pure. Empty: the period decides.
using MixedScore = std::function<double(const MixedCandidate&)>;

/// What candidates are compared by: less is better, from the first field on.
struct MixedKey {
  double seconds = 0;
  Bytes step_bytes;
  Bytes peak;      // of the fullest GPU
  int stages = 0;  // each is a launch, a border and a place in the schedule

  bool operator==(const MixedKey&) const = default;
  /// Times closer than 1e-12 relative are equal.
  bool beats(const MixedKey& other) const;
};

/// Makes candidates of one graph and machine, both of which must outlive it. One thread.
class CandidateMaker {
 public:
  CandidateMaker(const BlockGraph& graph, const MixedMachine& machine, const LoadRules& rules,
                 HoldsRule holds, std::vector<char> rematerialised);
  CandidateMaker(const CandidateMaker&) = delete;
  CandidateMaker& operator=(const CandidateMaker&) = delete;

  MixedCandidate make(Placement placement);
  /// Whether no GPU is above its budget.
  bool fits(const MixedCandidate& candidate) const;
  MixedKey key(const MixedCandidate& candidate, double seconds) const;

  const BlockGraph& graph() const { return model_.graph(); }
  const StageBuilder& builder() const { return builder_; }
  int gpus() const { return model_.gpus(); }
  /// True when groups stay stages of their own, because each is a visit of streamed weights.
  bool keeps_groups() const { return rules_.streamed_weights; }
  /// Every block an item of its own.
  const LoadModel& block_model() const { return model_; }
  const std::vector<char>& rematerialised() const { return rematerialised_; }

 private:
  LoadRules rules_;
  HoldsRule holds_;
  std::vector<char> rematerialised_;
  LoadModel model_;
  LoadTracker tracker_;
  StageBuilder builder_;
};

}  // namespace ferry
