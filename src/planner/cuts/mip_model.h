// clang-format off
// The mixed-integer program of Mobius, section 3.2, for one stage count: B_ij and constraints (3)
// to (11) as linear rows over the costs of evaluator.h. The constraint numbers stand in
// mip_model.cc.
//
// Three things are done to the printed program, none of which changes its optimum:
// - Equal consecutive layers are merged into a run; B_ij counts the layers of run i in stage j.
// - Every one of the S stages has a layer, since an empty slot would hinder prefetching; the
//   minimum over S is the caller's.
// - Start times are written for the first and the last micro-batch only. Times are longest paths,
//   every path enters a stage's micro-batches at the first and leaves them at the last ((9), (11),
//   (3), (7)), and between stages a and b it costs the stages' T and A once each and M - 1 further
//   T of stages of its choice. That is largest when all M - 1 are of one stage, and then no other
//   micro-batch is touched.
// clang-format on
#pragma once

#include <vector>

#include "planner/cuts/linear_program.h"
#include "planner/cuts/mip_cuts.h"

namespace ferry {

/// The program of one stage count. Refers to its arguments; must not outlive them.
class PartitionProgram {
 public:
  /// Requires: `ranges` are cut_ranges() of the same arguments.
  PartitionProgram(const EvaluatorProblem& problem, const std::vector<BlockCosts>& blocks,
                   const MipScope& scope, const std::vector<CutRange>& ranges);
  PartitionProgram(const PartitionProgram&) = delete;
  PartitionProgram& operator=(const PartitionProgram&) = delete;

  const LinearProgram& program() const { return program_; }

  /// The caller's time in one unit of the objective, which is scaled to about one per layer.
  double time_unit() const { return unit_; }

  /// How the columns stand for partitions.
  const CutColumns& cuts() const { return cuts_; }

 private:
  enum Direction { kForward, kBackward };
  struct Stage {  // all linear in B_ij
    LinearForm time[2], memory[2], upload[2], passed[2], download, update;
    double most_upload[2] = {0, 0};
  };

  void add_stages();
  void add_pass(Direction direction);
  void add_load(Direction direction, int stage, int before);
  void add_ends();
  LinearForm end_of(Direction direction, int stage) const;

  const EvaluatorProblem& problem_;
  const MipScope scope_;
  LinearProgram program_;
  const CutColumns cuts_;
  double unit_ = 1;
  std::vector<Stage> stages_;
  std::vector<int> listed_;                 // micro-batches with a start time
  std::vector<std::vector<int>> start_[2];  // t^e, [stage][place in listed_]: columns
};

}  // namespace ferry
