// The mixed-integer program of Mobius, section 3.2, for one stage count: B_ij and constraints (3) to
// (11) as linear rows over the costs of evaluator.h. The constraint numbers stand in mip_model.cc.
//
// Three things are done to the printed program, none of which changes its optimum:
// - Equal consecutive layers are merged into a run; B_ij counts the layers of run i in stage j.
// - Every one of the S stages has a layer, since an empty slot would hinder prefetching; the minimum
//   over S is the caller's.
// - Start times are written for the first and the last micro-batch only. Times are longest paths,
//   every path enters a stage's micro-batches at the first and leaves them at the last ((9), (11),
//   (3), (7)), and between stages a and b it costs the stages' T and A once each and M - 1 further T
//   of stages of its choice. That is largest when all M - 1 are of one stage, and then no other
//   micro-batch is touched.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "planner/linear_program.h"
#include "planner/partition.h"

namespace ferry {

/// Equal consecutive layers.
struct LayerRun {
  int first = 0;
  int count = 0;
  BlockCosts costs;  // of one of them
};

/// Merges equal neighbours. What no stage ever passes on, the first layer's activation gradient and
/// the last one's activation, does not count.
std::vector<LayerRun> equal_runs(const std::vector<BlockCosts>& blocks);

struct MipShape {
  int stages = 1;                  // S
  double cutoff = kUnbounded;      // only steps up to this are of interest
  bool every_micro_batch = false;  // writes (8) and (10) for all M, as printed
};

/// Where each stage can end: least and most layers up to and with it.
struct CutRange {
  int least = 0;
  int most = 0;
};

/// The ranges that constraint (4) and the cutoff leave; nothing when there is no such partition.
std::optional<std::vector<CutRange>> cut_ranges(const EvaluatorProblem& problem,
                                                const std::vector<BlockCosts>& blocks,
                                                const MipShape& shape);

class PartitionProgram {
 public:
  /// Requires: `ranges` are cut_ranges() of the same arguments.
  PartitionProgram(const EvaluatorProblem& problem, const std::vector<BlockCosts>& blocks,
                   const MipShape& shape, const std::vector<CutRange>& ranges);

  const LinearProgram& program() const { return program_; }

  /// The caller's time in one unit of the objective, which is scaled to about one per layer.
  double time_unit() const { return unit_; }

  /// The columns that fix a partition, as solve_program() wants its start. Requires: `ends` lie
  /// within the ranges.
  std::vector<std::pair<int, double>> start(const std::vector<int>& ends) const;

  /// The partition of a solution.
  std::vector<int> ends(const std::vector<double>& columns) const;

 private:
  enum Direction { kForward, kBackward };
  struct Stage {  // all linear in B_ij
    LinearForm time[2], memory[2], upload[2], passed[2], download, update;
    double most_upload[2] = {0, 0};
  };

  void add_cuts();
  void add_stage_limits();
  void add_borders(int run, int stage);
  LinearForm passed_bytes(Direction direction, int stage) const;
  void add_stages();
  void add_pass(Direction direction);
  void add_load(Direction direction, int stage, int before);
  void add_ends();
  LinearForm sum(int stage, double BlockCosts::*cost, double factor) const;
  LinearForm end_of(Direction direction, int stage) const;
  double passing(double bytes) const;

  const EvaluatorProblem& problem_;
  const std::vector<BlockCosts>& blocks_;
  const MipShape shape_;
  const std::vector<CutRange>& ranges_;
  const std::vector<LayerRun> runs_;
  double unit_ = 1;
  LinearProgram program_;
  std::vector<std::vector<LinearForm>> in_stage_;  // B_ij, [run][stage]
  std::vector<std::vector<LinearForm>> through_;   // sum of B_ij' over j' <= j
  std::vector<std::vector<LinearForm>> begun_;     // 1 when through_ > 0
  std::vector<std::vector<LinearForm>> complete_;  // 1 when through_ is the whole run
  std::vector<Stage> stages_;
  std::vector<int> listed_;                        // micro-batches with a start time
  std::vector<std::vector<int>> start_[2];         // t^e, [stage][place in listed_]: columns
};

}  // namespace ferry
