// Which layers are in which stage, as columns of the mixed-integer program (mip_model.h): the B_ij
// of Mobius, section 3.2, over runs of equal layers.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "planner/cuts/linear_program.h"
#include "planner/cuts/partition.h"

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

/// What one program covers.
struct MipScope {
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
                                                const MipScope& scope);

/// B_ij, its sums over i and j, and the rows that make it a partition into contiguous stages, none
/// of them empty. Refers to its arguments; must not outlive them.
class CutColumns {
 public:
  /// Adds columns and rows to `program`. Requires: `ranges` are cut_ranges() of the same arguments.
  CutColumns(const EvaluatorProblem& problem, const std::vector<BlockCosts>& blocks,
             const MipScope& scope, const std::vector<CutRange>& ranges, LinearProgram& program);

  /// factor * the sum of one cost over a stage's layers: T_j, S_j, W_j.
  LinearForm sum(int stage, double BlockCosts::*cost, double factor) const;

  /// A_j, of a stage's last layer, and A'_j, of its first. Requires: the stage has a neighbour to
  /// pass them to.
  LinearForm activation(int stage) const;
  LinearForm activation_gradient(int stage) const;

  /// The columns that fix a partition, as solve_program() wants its start. Requires: `ends` lie
  /// within the ranges.
  std::vector<std::pair<int, double>> start(const std::vector<int>& ends) const;

  /// The partition of a solution.
  std::vector<int> ends(const std::vector<double>& columns) const;

 private:
  using Forms = std::vector<std::vector<LinearForm>>;  // [run][stage]

  void add_layers(int run);
  void add_borders(int run, int stage);
  void add_neighbours();

  const EvaluatorProblem& problem_;
  const std::vector<BlockCosts>& blocks_;
  const MipScope& scope_;
  const std::vector<CutRange>& ranges_;
  LinearProgram& program_;
  const std::vector<LayerRun> runs_;
  Forms in_stage_;  // B_ij
  Forms through_;   // sum of B_ij' over j' <= j
  Forms begun_;     // 1 when through_ > 0, else 0
  Forms complete_;  // 1 when through_ is the whole run, else 0
};

}  // namespace ferry
