#include "planner/cuts/mip_cuts.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <tuple>

#include "base/check.h"

namespace ferry {
namespace {

auto all_costs(const BlockCosts& b) {
  return std::tie(b.forward_time, b.backward_time, b.forward_memory, b.backward_memory,
                  b.forward_upload, b.backward_upload, b.activation, b.activation_gradient,
                  b.gradient_download, b.update_time);
}

// What stages can hold: (4), and the path through all stages that spends the other M - 1
// micro-batches in this one, which the cutoff must allow.
class StageReach {
 public:
  StageReach(const EvaluatorProblem& problem, const std::vector<BlockCosts>& blocks,
             const MipScope& scope)
      : problem_(problem), blocks_(blocks) {
    if (problem.micro_batches == 1 || scope.cutoff == kUnbounded) return;
    double chain = 2 * problem.switches.stage_overhead * (scope.stages - 1);
    for (const BlockCosts& block : blocks) chain += block.forward_time + block.backward_time;
    time_ = (scope.cutoff * (1 + 1e-9) - chain) / (problem.micro_batches - 1);
  }

  /// The most layers that fit in a stage from `first` on, or up to `first` when `step` is -1.
  int layers(int first, int step) const {
    double forward = 0;
    double backward = 0;
    double time = 0;
    int count = 0;
    for (int b = first; b >= 0 && b < static_cast<int>(blocks_.size()); b += step) {
      const BlockCosts& block = blocks_[b];
      forward += block.forward_memory;
      backward += block.backward_memory;
      time += block.forward_time + block.backward_time;
      // Sums in another order than the evaluator's may differ in the last bits.
      if (std::max(forward, backward) > problem_.memory * (1 + 1e-12) || time > time_) break;
      ++count;
    }
    return count;
  }

 private:
  const EvaluatorProblem& problem_;
  const std::vector<BlockCosts>& blocks_;
  double time_ = kUnbounded;
};

}  // namespace

std::vector<LayerRun> equal_runs(const std::vector<BlockCosts>& blocks) {
  std::vector<LayerRun> runs;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    BlockCosts costs = blocks[b];
    if (b == 0 && blocks.size() > 1) costs.activation_gradient = blocks[1].activation_gradient;
    if (b > 0 && b + 1 == blocks.size()) costs.activation = blocks[b - 1].activation;
    if (runs.empty() || all_costs(runs.back().costs) != all_costs(costs)) {
      runs.push_back({static_cast<int>(b), 0, costs});
    }
    ++runs.back().count;
  }
  return runs;
}

std::optional<std::vector<CutRange>> cut_ranges(const EvaluatorProblem& problem,
                                                const std::vector<BlockCosts>& blocks,
                                                const MipScope& scope) {
  const int layers = static_cast<int>(blocks.size());
  const int stages = scope.stages;
  const StageReach reach(problem, blocks, scope);
  std::vector<CutRange> ranges(stages);
  int most = 0;
  for (int j = 0; j < stages; ++j) {
    most = std::min(most + reach.layers(most, 1), layers - (stages - 1 - j));
    ranges[j].most = most;
  }
  int least = layers;
  for (int j = stages; j-- > 0;) {
    ranges[j].least = least;
    least = std::max(least - reach.layers(least - 1, -1), j);
  }
  for (const CutRange& range : ranges) {
    if (range.least > range.most) return std::nullopt;
  }
  if (ranges.back().most != layers || least != 0) return std::nullopt;
  return ranges;
}

CutColumns::CutColumns(const EvaluatorProblem& problem, const std::vector<BlockCosts>& blocks,
                       const MipScope& scope, const std::vector<CutRange>& ranges,
                       LinearProgram& program)
    : problem_(problem),
      blocks_(blocks),
      scope_(scope),
      ranges_(ranges),
      program_(program),
      runs_(equal_runs(blocks)) {
  in_stage_.resize(runs_.size());
  through_ = begun_ = complete_ = in_stage_;
  for (int i = 0; i < static_cast<int>(runs_.size()); ++i) add_layers(i);
  for (int j = 0; j < scope_.stages; ++j) {  // no stage is empty
    LinearForm layers(-1);
    for (const auto& run : in_stage_) layers.add(run[j]);
    program_.at_least_zero(layers);
  }
  add_neighbours();
}

// B_ij with sum_j B_ij = the layers of run i, by way of the running sums, whose ranges are known.
// With runs of one layer each, begun and complete are the running sums themselves, and
// add_borders() says idx(i) <= idx(i+1).
void CutColumns::add_layers(int i) {
  const LayerRun& run = runs_[i];
  const auto within = [&](int cut) { return std::clamp(cut - run.first, 0, run.count); };
  for (int j = 0; j < scope_.stages; ++j) {
    const int least = within(ranges_[j].least);
    const int most = within(ranges_[j].most);
    LinearForm through(least);
    if (least < most)
      through = LinearForm::of(program_.add({double(least), double(most), 0, true}));
    through_[i].push_back(through);
    add_borders(i, j);

    LinearForm here = through;
    if (j > 0) here.add(through_[i][j - 1], -1);
    if (!here.terms().empty()) {
      const int before = j > 0 ? within(ranges_[j - 1].least) : 0;
      const int column = program_.add({0, double(most - before), 0, true});
      program_.equals_zero(LinearForm(here).add(column, -1));
      here = LinearForm::of(column);
    }
    in_stage_[i].push_back(here);
  }
}

// begun and complete of one run after one stage, and that it begins only when the run before it is
// complete.
void CutColumns::add_borders(int i, int j) {
  const LayerRun& run = runs_[i];
  const LinearForm& through = through_[i][j];
  LinearForm begun;
  LinearForm complete;
  if (through.terms().empty()) {
    begun = LinearForm(through.constant() > 0 ? 1 : 0);
    complete = LinearForm(through.constant() >= run.count ? 1 : 0);
  } else {
    const LinearColumn column = program_.columns()[through.terms().front().first];
    begun = complete = LinearForm(0);
    if (run.count == 1) {
      begun = complete = through;
    } else {
      begun = LinearForm(1);
      if (column.lower < 1) {
        begun = LinearForm::of(program_.add({0, 1, 0, true}));
        program_.at_least_zero(LinearForm(through).add(begun, -1));
        program_.at_least_zero(LinearForm().add(begun, column.upper).add(through, -1));
      }
      if (column.upper >= run.count) {
        complete = LinearForm::of(program_.add({0, 1, 0, true}));
        program_.at_least_zero(LinearForm(through)
                                   .add(complete, column.lower - run.count)
                                   .add(LinearForm(column.lower), -1));
        program_.at_least_zero(LinearForm(run.count - 1).add(complete, 1).add(through, -1));
      }
    }
  }
  if (i > 0) {
    program_.at_least_zero(LinearForm(complete_[i - 1][j]).add(begun, -1));
  }
  begun_[i].push_back(begun);
  complete_[i].push_back(complete);
}

// What cannot share a stage, by whole runs: when run `to` begins in stage j or before, then run
// `from` is complete in stage j - 1 or before, if the last layer of `from` and the first of `to`
// together exceed a stage. Likewise no stage is empty: when `from` is complete, the next run has
// begun one stage later. Both follow from the rows above for whole numbers, but not for fractions.
void CutColumns::add_neighbours() {
  const StageReach reach(problem_, blocks_, scope_);
  const int runs = static_cast<int>(runs_.size());
  for (int from = 0; from < runs; ++from) {
    const int last = runs_[from].first + runs_[from].count - 1;
    const int beyond = last + reach.layers(last, 1);
    int to = from + 1;
    while (to < runs && runs_[to].first < beyond) ++to;
    for (int j = 1; j < scope_.stages; ++j) {
      const LinearForm& complete = complete_[from][j - 1];
      if (to < runs) {
        program_.at_least_zero(LinearForm(complete).add(begun_[to][j], -1));
      }
      if (from + 1 < runs) {
        program_.at_least_zero(LinearForm(begun_[from + 1][j]).add(complete, -1));
      }
    }
  }
}

LinearForm CutColumns::sum(int stage, double BlockCosts::*cost, double factor) const {
  LinearForm result;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    result.add(in_stage_[i][stage], runs_[i].costs.*cost * factor);
  }
  return result;
}

// A_j = sum_i a_i z_ij with z_ij = 1 when the last layer of stage j is in run i: the run has begun
// and the next has not. (The printed z_ij >= B_ij - B_{i+1,j} bounds the same z from below.)
LinearForm CutColumns::activation(int stage) const {
  LinearForm bytes;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    LinearForm last = begun_[i][stage];
    if (i + 1 < runs_.size()) last.add(begun_[i + 1][stage], -1);
    bytes.add(last, runs_[i].costs.activation);
  }
  return bytes;
}

// A'_j likewise with the first layer, which is in the first run that was not complete before.
LinearForm CutColumns::activation_gradient(int stage) const {
  LinearForm bytes;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    LinearForm first = i == 0 ? LinearForm(1) : complete_[i - 1][stage - 1];
    first.add(complete_[i][stage - 1], -1);
    bytes.add(first, runs_[i].costs.activation_gradient);
  }
  return bytes;
}

std::vector<std::pair<int, double>> CutColumns::start(const std::vector<int>& ends) const {
  FERRY_CHECK(std::ssize(ends) == scope_.stages, "a start has as many stages as the program");
  std::vector<std::pair<int, double>> columns;
  const auto fix = [&](const LinearForm& form, double value) {
    if (!form.terms().empty()) columns.emplace_back(form.terms().front().first, value);
  };
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const LayerRun& run = runs_[i];
    int before = 0;
    for (std::size_t j = 0; j < ends.size(); ++j) {
      const int through = std::clamp(ends[j] - run.first, 0, run.count);
      fix(through_[i][j], through);
      fix(in_stage_[i][j], through - before);
      if (run.count > 1) {
        fix(begun_[i][j], through > 0);
        fix(complete_[i][j], through == run.count);
      }
      before = through;
    }
  }
  return columns;
}

std::vector<int> CutColumns::ends(const std::vector<double>& columns) const {
  std::vector<int> ends;
  for (int j = 0; j < scope_.stages; ++j) {
    double end = 0;
    for (const auto& run : through_) {
      end += run[j].constant();
      for (const auto& [column, factor] : run[j].terms()) {
        end += factor * std::round(columns[column]);
      }
    }
    ends.push_back(static_cast<int>(std::lround(end)));
  }
  return ends;
}

}  // namespace ferry
