#include "planner/cuts/mip_model.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace ferry {
namespace {

constexpr double kMemoryUnits = 1000;  // G in constraint (4): the solver's 1e-6 is 1e-9 of it

}  // namespace

PartitionProgram::PartitionProgram(const EvaluatorProblem& problem,
                                   const std::vector<BlockCosts>& blocks, const MipScope& scope,
                                   const std::vector<CutRange>& ranges)
    : problem_(problem), scope_(scope), cuts_(problem, blocks, scope_, ranges, program_) {
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
    if (scope.every_micro_batch || m == 0 || m == last) listed_.push_back(m);
  }
  add_stages();
  add_pass(kForward);
  add_pass(kBackward);
  add_ends();
}

void PartitionProgram::add_stages() {
  const double link = 1 / (problem_.bandwidth * unit_);  // bytes to scaled time
  for (int j = 0; j < scope_.stages; ++j) {
    Stage stage;
    stage.time[kForward] = cuts_.sum(j, &BlockCosts::forward_time, 1 / unit_);
    stage.time[kBackward] = cuts_.sum(j, &BlockCosts::backward_time, 1 / unit_);
    stage.memory[kForward] = cuts_.sum(j, &BlockCosts::forward_memory, 1);
    stage.memory[kBackward] = cuts_.sum(j, &BlockCosts::backward_memory, 1);
    stage.upload[kForward] = cuts_.sum(j, &BlockCosts::forward_upload, link);
    stage.upload[kBackward] = cuts_.sum(j, &BlockCosts::backward_upload, link);
    stage.download = cuts_.sum(j, &BlockCosts::gradient_download, link);
    stage.update = cuts_.sum(j, &BlockCosts::update_time, 1 / unit_);
    if (j + 1 < scope_.stages) stage.passed[kForward].add(cuts_.activation(j), link);
    if (j > 0) stage.passed[kBackward].add(cuts_.activation_gradient(j), link);
    for (const Direction e : {kForward, kBackward}) {
      for (const auto& [column, factor] : stage.upload[e].terms()) {
        stage.most_upload[e] += factor * program_.columns()[column].upper;
      }
      if (problem_.memory > 0) {  // constraint (4): S^e_j <= G
        program_.at_least_zero(
            LinearForm(kMemoryUnits).add(stage.memory[e], -kMemoryUnits / problem_.memory));
      }
    }
    stages_.push_back(std::move(stage));
  }
}

LinearForm PartitionProgram::end_of(Direction direction, int stage) const {
  return LinearForm::of(start_[direction][stage].back()).add(stages_[stage].time[direction]);
}

// t^e_{j,m} of one pass in the order of execution.
void PartitionProgram::add_pass(Direction e) {
  const double overhead = problem_.switches.stage_overhead / unit_;
  const int stages = scope_.stages;
  const int step = e == kForward ? 1 : -1;
  auto& start = start_[e];
  start.resize(stages);
  for (int n = 0; n < stages; ++n) {
    const int j = e == kForward ? n : stages - 1 - n;
    for (std::size_t m = 0; m < listed_.size(); ++m) start[j].push_back(program_.add({}));
    for (std::size_t m = 0; m < listed_.size(); ++m) {
      const LinearForm t = LinearForm::of(start[j][m]);
      if (n > 0) {  // (8): t^e_{j,m} >= t^e_{j-1,m} + T^e_{j-1} + A_{j-1} / B
        const Stage& before = stages_[j - step];
        program_.at_least_zero(LinearForm(t)
                                   .add(start[j - step][m], -1)
                                   .add(before.time[e], -1)
                                   .add(before.passed[e], -1)
                                   .add(LinearForm(overhead), -1));
      }
      if (m > 0) {  // (10): t^e_{j,m} >= t^e_{j,m-1} + T^e_j
        program_.at_least_zero(LinearForm(t)
                                   .add(start[j][m - 1], -1)
                                   .add(stages_[j].time[e], listed_[m - 1] - listed_[m]));
      }
    }
    const LinearForm first = LinearForm::of(start[j].front());
    if (e == kBackward && n == 0) {  // (11): t^b_{S,1} >= t^f_{S,M} + T^f_S
      program_.at_least_zero(LinearForm(first).add(end_of(kForward, j), -1));
    }
    if (n >= problem_.devices) {
      add_load(e, j, j - step * problem_.devices);
    } else if (e == kForward && problem_.switches.first_loads) {
      program_.at_least_zero(
          LinearForm(first).add(stages_[j].upload[e], -1).add(LinearForm(overhead), -1));
    }
  }
}

// The prefetch P^e_j of a stage while the stage before it on the device runs, in time of the link.
void PartitionProgram::add_load(Direction e, int j, int before) {
  const Stage& stage = stages_[j];
  const double link = 1 / (problem_.bandwidth * unit_);
  const LinearForm prefetch = LinearForm::of(program_.add({}));
  const LinearForm first = LinearForm::of(start_[e][j].front());
  const LinearForm end = end_of(e, before);
  // (7): D^e = t^e_{M} + T^e - t^e_{1}
  const LinearForm duration = LinearForm(end).add(start_[e][before].front(), -1);
  const LinearForm left = LinearForm(stage.upload[e]).add(prefetch, -1);
  // (5): P^e_j <= G - S^e of the stage before
  program_.at_least_zero(
      LinearForm(problem_.memory * link).add(stages_[before].memory[e], -link).add(prefetch, -1));
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
  const int step = program_.add({0, scope_.cutoff / unit_, 1, false});
  const LinearForm objective = LinearForm::of(step);
  program_.at_least_zero(LinearForm(objective).add(end_of(kBackward, 0), -1));
  if (!switches.gradient_downloads && !switches.updates) return;
  const double overhead = switches.stage_overhead / unit_;
  std::vector<LinearForm> landed(scope_.stages);
  const LinearForm last = LinearForm::of(program_.add({}));
  for (int j = scope_.stages; j-- > 0;) {
    landed[j] = end_of(kBackward, j);
    if (switches.gradient_downloads) {  // one at a time per device
      const LinearForm moving = LinearForm(overhead).add(stages_[j].download);
      const LinearForm end = LinearForm::of(program_.add({}));
      program_.at_least_zero(LinearForm(end).add(landed[j], -1).add(moving, -1));
      const int before = j + problem_.devices;
      if (before < scope_.stages) {
        program_.at_least_zero(LinearForm(end).add(landed[before], -1).add(moving, -1));
      }
      landed[j] = end;
    }
    program_.at_least_zero(LinearForm(last).add(landed[j], -1));
  }
  program_.at_least_zero(LinearForm(objective).add(last, -1));
  if (!switches.updates) return;
  LinearForm host = switches.updates_wait_for_all ? last : LinearForm(0);
  for (int j = scope_.stages; j-- > 0;) {
    const LinearForm end = LinearForm::of(program_.add({}));
    const LinearForm& update = stages_[j].update;
    program_.at_least_zero(LinearForm(end).add(host, -1).add(update, -1));
    program_.at_least_zero(LinearForm(end).add(landed[j], -1).add(update, -1));
    host = end;
  }
  program_.at_least_zero(LinearForm(objective).add(host, -1));
}

}  // namespace ferry
