#include "planner/mip_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <tuple>

#include "base/check.h"

namespace ferry {
namespace {

constexpr double kMemoryUnits = 1000;  // G in constraint (4): the solver's 1e-6 is 1e-9 of it

std::size_t at(int index) { return static_cast<std::size_t>(index); }

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
             const MipShape& shape)
      : problem_(problem), blocks_(blocks) {
    if (problem.micro_batches == 1 || shape.cutoff == kUnbounded) return;
    double chain = 2 * problem.switches.stage_overhead * (shape.stages - 1);
    for (const BlockCosts& block : blocks) chain += block.forward_time + block.backward_time;
    time_ = (shape.cutoff * (1 + 1e-9) - chain) / (problem.micro_batches - 1);
  }

  /// The most layers that fit in a stage from `first` on, or up to `first` when `step` is -1.
  int layers(int first, int step) const {
    double forward = 0;
    double backward = 0;
    double time = 0;
    int count = 0;
    for (int b = first; b >= 0 && b < static_cast<int>(blocks_.size()); b += step) {
      const BlockCosts& block = blocks_[at(b)];
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
                                                const MipShape& shape) {
  const int layers = static_cast<int>(blocks.size());
  const int stages = shape.stages;
  const StageReach reach(problem, blocks, shape);
  std::vector<CutRange> ranges(at(stages));
  int most = 0;
  for (int j = 0; j < stages; ++j) {
    most = std::min(most + reach.layers(most, 1), layers - (stages - 1 - j));
    ranges[at(j)].most = most;
  }
  int least = layers;
  for (int j = stages; j-- > 0;) {
    ranges[at(j)].least = least;
    least = std::max(least - reach.layers(least - 1, -1), j);
  }
  for (const CutRange& range : ranges) {
    if (range.least > range.most) return std::nullopt;
  }
  if (ranges.back().most != layers || least != 0) return std::nullopt;
  return ranges;
}

PartitionProgram::PartitionProgram(const EvaluatorProblem& problem,
                                   const std::vector<BlockCosts>& blocks, const MipShape& shape,
                                   const std::vector<CutRange>& ranges)
    : problem_(problem), blocks_(blocks), shape_(shape), ranges_(ranges), runs_(equal_runs(blocks)) {
  double compute = 0;
  double uploads = 0;
  for (const BlockCosts& block : blocks) {
    compute += block.forward_time + block.backward_time;
    uploads += (block.forward_upload + block.backward_upload) / problem.bandwidth;
  }
  unit_ = std::max(compute, uploads) / static_cast<double>(blocks.size());
  if (unit_ <= 0) unit_ = 1;
  const int last = problem.micro_batches - 1;
  for (int m = 0; m <= last; ++m) {
    if (shape.every_micro_batch || m == 0 || m == last) listed_.push_back(m);
  }
  add_cuts();
  add_stage_limits();
  add_stages();
  add_pass(kForward);
  add_pass(kBackward);
  add_ends();
}

// B_ij with sum_j B_ij = the run's layers, in order: no layer of a run before the runs before it are
// complete. With runs of one layer each this is idx(i) <= idx(i+1), and stages are not empty.
void PartitionProgram::add_cuts() {
  in_stage_.resize(runs_.size());
  through_ = begun_ = complete_ = in_stage_;
  for (int i = 0; i < static_cast<int>(runs_.size()); ++i) {
    const LayerRun& run = runs_[at(i)];
    for (int j = 0; j < shape_.stages; ++j) {
      const auto within = [&](int cut) { return std::clamp(cut - run.first, 0, run.count); };
      const int least = within(ranges_[at(j)].least);
      const int most = within(ranges_[at(j)].most);
      LinearForm through(least);
      if (least < most) {
        through = LinearForm::of(program_.add({double(least), double(most), 0, true}));
      }
      through_[at(i)].push_back(through);
      add_borders(i, j);

      LinearForm here = through;
      if (j > 0) here.add(through_[at(i)][at(j - 1)], -1);
      if (!here.terms().empty()) {
        const int before = j > 0 ? within(ranges_[at(j - 1)].least) : 0;
        const int column = program_.add({0, double(most - before), 0, true});
        program_.equals_zero(LinearForm(here).add(column, -1));
        here = LinearForm::of(column);
      }
      in_stage_[at(i)].push_back(here);
    }
  }
  for (int j = 0; j < shape_.stages; ++j) {
    LinearForm layers(-1);
    for (const auto& run : in_stage_) layers.add(run[at(j)]);
    program_.at_least_zero(layers);
  }
}

// What cannot share a stage, by whole runs: when run `to` begins in stage j or before, then run `from`
// is complete in stage j - 1 or before, if the last layer of `from` and the first of `to` together
// exceed a stage. Likewise no stage is empty: when `from` is complete, the next run has begun one
// stage later. Both follow from the rows above for whole numbers, but not for fractions.
void PartitionProgram::add_stage_limits() {
  const StageReach reach(problem_, blocks_, shape_);
  const int runs = static_cast<int>(runs_.size());
  for (int from = 0; from < runs; ++from) {
    const int last = runs_[at(from)].first + runs_[at(from)].count - 1;
    const int beyond = last + reach.layers(last, 1);
    int to = from + 1;
    while (to < runs && runs_[at(to)].first < beyond) ++to;
    for (int j = 1; j < shape_.stages; ++j) {
      const LinearForm& complete = complete_[at(from)][at(j - 1)];
      if (to < runs) {
        program_.at_least_zero(LinearForm(complete).add(begun_[at(to)][at(j)], -1));
      }
      if (from + 1 < runs) {
        program_.at_least_zero(LinearForm(begun_[at(from + 1)][at(j)]).add(complete, -1));
      }
    }
  }
}

// begun and complete of one run after one stage, and that it begins only when the run before it is
// complete.
void PartitionProgram::add_borders(int i, int j) {
  const LayerRun& run = runs_[at(i)];
  const LinearForm& through = through_[at(i)][at(j)];
  LinearForm begun;
  LinearForm complete;
  if (through.terms().empty()) {
    begun = LinearForm(through.constant() > 0 ? 1 : 0);
    complete = LinearForm(through.constant() >= run.count ? 1 : 0);
  } else {
    const LinearColumn column = program_.columns()[at(through.terms().front().first)];
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
        program_.at_least_zero(
            LinearForm(through).add(complete, column.lower - run.count).add(LinearForm(column.lower), -1));
        program_.at_least_zero(LinearForm(run.count - 1).add(complete, 1).add(through, -1));
      }
    }
  }
  if (i > 0) {
    program_.at_least_zero(LinearForm(complete_[at(i - 1)][at(j)]).add(begun, -1));
  }
  begun_[at(i)].push_back(begun);
  complete_[at(i)].push_back(complete);
}

LinearForm PartitionProgram::sum(int stage, double BlockCosts::*cost, double factor) const {
  LinearForm result;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    result.add(in_stage_[i][at(stage)], runs_[i].costs.*cost * factor);
  }
  return result;
}

// A_j = sum_i a_i z_ij with z_ij = 1 when the last layer of stage j is in run i: the run has begun
// and the next has not. A'_j likewise with the first layer, which is in the first run that was not
// complete before. (The printed z_ij >= B_ij - B_{i+1,j} bounds the same z from below.)
LinearForm PartitionProgram::passed_bytes(Direction direction, int stage) const {
  LinearForm bytes;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    LinearForm here;
    if (direction == kForward) {
      here = begun_[i][at(stage)];
      if (i + 1 < runs_.size()) here.add(begun_[i + 1][at(stage)], -1);
      bytes.add(here, runs_[i].costs.activation);
    } else {
      here = i == 0 ? LinearForm(1) : complete_[i - 1][at(stage - 1)];
      here.add(complete_[i][at(stage - 1)], -1);
      bytes.add(here, runs_[i].costs.activation_gradient);
    }
  }
  return bytes;
}

void PartitionProgram::add_stages() {
  const double link = 1 / (problem_.bandwidth * unit_);  // bytes to scaled time
  for (int j = 0; j < shape_.stages; ++j) {
    Stage stage;
    stage.time[kForward] = sum(j, &BlockCosts::forward_time, 1 / unit_);
    stage.time[kBackward] = sum(j, &BlockCosts::backward_time, 1 / unit_);
    stage.memory[kForward] = sum(j, &BlockCosts::forward_memory, 1);
    stage.memory[kBackward] = sum(j, &BlockCosts::backward_memory, 1);
    stage.upload[kForward] = sum(j, &BlockCosts::forward_upload, link);
    stage.upload[kBackward] = sum(j, &BlockCosts::backward_upload, link);
    stage.download = sum(j, &BlockCosts::gradient_download, link);
    stage.update = sum(j, &BlockCosts::update_time, 1 / unit_);
    for (const Direction e : {kForward, kBackward}) {
      for (const auto& [column, factor] : stage.upload[e].terms()) {
        stage.most_upload[e] += factor * program_.columns()[at(column)].upper;
      }
      if ((e == kForward && j + 1 < shape_.stages) || (e == kBackward && j > 0)) {
        stage.passed[e].add(passed_bytes(e, j), link);
      }
      if (problem_.memory > 0) {  // constraint (4): S^e_j <= G
        program_.at_least_zero(LinearForm(kMemoryUnits)
                                   .add(stage.memory[e], -kMemoryUnits / problem_.memory));
      }
    }
    stages_.push_back(std::move(stage));
  }
}

LinearForm PartitionProgram::end_of(Direction direction, int stage) const {
  return LinearForm::of(start_[direction][at(stage)].back()).add(stages_[at(stage)].time[direction]);
}

// t^e_{j,m} of one pass in the order of execution.
void PartitionProgram::add_pass(Direction e) {
  const double overhead = problem_.switches.stage_overhead / unit_;
  const int stages = shape_.stages;
  const int step = e == kForward ? 1 : -1;
  auto& start = start_[e];
  start.resize(at(stages));
  for (int n = 0; n < stages; ++n) {
    const int j = e == kForward ? n : stages - 1 - n;
    for (std::size_t m = 0; m < listed_.size(); ++m) start[at(j)].push_back(program_.add({}));
    for (std::size_t m = 0; m < listed_.size(); ++m) {
      const LinearForm t = LinearForm::of(start[at(j)][m]);
      if (n > 0) {  // (8): t^e_{j,m} >= t^e_{j-1,m} + T^e_{j-1} + A_{j-1} / B
        const Stage& before = stages_[at(j - step)];
        program_.at_least_zero(LinearForm(t)
                                   .add(start[at(j - step)][m], -1)
                                   .add(before.time[e], -1)
                                   .add(before.passed[e], -1)
                                   .add(LinearForm(overhead), -1));
      }
      if (m > 0) {  // (10): t^e_{j,m} >= t^e_{j,m-1} + T^e_j
        program_.at_least_zero(LinearForm(t)
                                   .add(start[at(j)][m - 1], -1)
                                   .add(stages_[at(j)].time[e], listed_[m - 1] - listed_[m]));
      }
    }
    const LinearForm first = LinearForm::of(start[at(j)].front());
    if (e == kBackward && n == 0) {  // (11): t^b_{S,1} >= t^f_{S,M} + T^f_S
      program_.at_least_zero(LinearForm(first).add(end_of(kForward, j), -1));
    }
    if (n >= problem_.devices) {
      add_load(e, j, j - step * problem_.devices);
    } else if (e == kForward && problem_.switches.first_loads) {
      program_.at_least_zero(
          LinearForm(first).add(stages_[at(j)].upload[e], -1).add(LinearForm(overhead), -1));
    }
  }
}

// The prefetch P^e_j of a stage while the stage before it on the device runs, in time of the link.
void PartitionProgram::add_load(Direction e, int j, int before) {
  const Stage& stage = stages_[at(j)];
  const double link = 1 / (problem_.bandwidth * unit_);
  const LinearForm prefetch = LinearForm::of(program_.add({}));
  const LinearForm first = LinearForm::of(start_[e][at(j)].front());
  const LinearForm end = end_of(e, before);
  // (7): D^e = t^e_{M} + T^e - t^e_{1}
  const LinearForm duration = LinearForm(end).add(start_[e][at(before)].front(), -1);
  const LinearForm left = LinearForm(stage.upload[e]).add(prefetch, -1);
  // (5): P^e_j <= G - S^e of the stage before
  program_.at_least_zero(LinearForm(problem_.memory * link)
                             .add(stages_[at(before)].memory[e], -link)
                             .add(prefetch, -1));
  program_.at_least_zero(LinearForm(duration).add(prefetch, -1));  // (6): P^e_j <= B D^e
  program_.at_least_zero(left);                                    // (6): P^e_j <= S^e_j
  LinearForm load = left;
  const double overhead = problem_.switches.stage_overhead / unit_;
  if (overhead > 0) {  // a load that is not complete costs an overhead too
    const int incomplete = program_.add({0, 1, 0, true});
    program_.at_least_zero(LinearForm::of(incomplete, stage.most_upload[e]).add(left, -1));
    load.add(incomplete, overhead);
  }
  // (9): t^e_{j,1} >= t^e_{M} + T^e + (S^e_j - P^e_j) / B
  program_.at_least_zero(LinearForm(first).add(end, -1).add(load, -1));
}

// (3): minimise t^b_{1,M} + T^b_1; with switches on, the end of the last download or update.
void PartitionProgram::add_ends() {
  const EvaluatorSwitches& switches = problem_.switches;
  const int step = program_.add({0, shape_.cutoff / unit_, 1, false});
  const LinearForm objective = LinearForm::of(step);
  program_.at_least_zero(LinearForm(objective).add(end_of(kBackward, 0), -1));
  if (!switches.gradient_downloads && !switches.updates) return;
  const double overhead = switches.stage_overhead / unit_;
  std::vector<LinearForm> landed(at(shape_.stages));
  const LinearForm last = LinearForm::of(program_.add({}));
  for (int j = shape_.stages; j-- > 0;) {
    landed[at(j)] = end_of(kBackward, j);
    if (switches.gradient_downloads) {  // one at a time per device
      const LinearForm moving = LinearForm(overhead).add(stages_[at(j)].download);
      const LinearForm end = LinearForm::of(program_.add({}));
      program_.at_least_zero(LinearForm(end).add(landed[at(j)], -1).add(moving, -1));
      const int before = j + problem_.devices;
      if (before < shape_.stages) {
        program_.at_least_zero(LinearForm(end).add(landed[at(before)], -1).add(moving, -1));
      }
      landed[at(j)] = end;
    }
    program_.at_least_zero(LinearForm(last).add(landed[at(j)], -1));
  }
  program_.at_least_zero(LinearForm(objective).add(last, -1));
  if (!switches.updates) return;
  LinearForm host = switches.updates_wait_for_all ? last : LinearForm(0);
  for (int j = shape_.stages; j-- > 0;) {
    const LinearForm end = LinearForm::of(program_.add({}));
    const LinearForm& update = stages_[at(j)].update;
    program_.at_least_zero(LinearForm(end).add(host, -1).add(update, -1));
    program_.at_least_zero(LinearForm(end).add(landed[at(j)], -1).add(update, -1));
    host = end;
  }
  program_.at_least_zero(LinearForm(objective).add(host, -1));
}

std::vector<std::pair<int, double>> PartitionProgram::start(const std::vector<int>& ends) const {
  FERRY_CHECK(ends.size() == at(shape_.stages), "a start has as many stages as the program");
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

std::vector<int> PartitionProgram::ends(const std::vector<double>& columns) const {
  std::vector<int> ends;
  for (int j = 0; j < shape_.stages; ++j) {
    double end = 0;
    for (const auto& run : through_) {
      end += run[at(j)].constant();
      for (const auto& [column, factor] : run[at(j)].terms()) {
        end += factor * std::round(columns[at(column)]);
      }
    }
    ends.push_back(static_cast<int>(std::lround(end)));
  }
  return ends;
}

}  // namespace ferry
