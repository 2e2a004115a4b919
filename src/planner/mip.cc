#include "planner/mip.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>

#include "base/check.h"
#include "planner/mip_model.h"
#include "planner/solve_program.h"

namespace ferry {
namespace {

constexpr double kSame = 1e-6;  // relative; what the solver's arithmetic can tell apart

class MipSearch {
 public:
  MipSearch(const EvaluatorProblem& problem, const std::vector<BlockCosts>& blocks,
            const MipLimits& limits)
      : problem_(problem), blocks_(blocks), limits_(limits) {}

  MipResult run() {
    seed();
    list_stage_counts();
    while (Candidate* next = lowest()) {
      if (closed(*next) || spent()) break;
      next->relaxed ? solve(*next) : relax(*next);
    }
    return report();
  }

 private:
  struct Candidate {
    StageCountResult known;
    bool relaxed = false;
    bool solved = false;
  };

  MipShape shape(int stages) const {
    MipShape result;
    result.stages = stages;
    result.every_micro_batch = limits_.every_micro_batch;
    if (best_) result.cutoff = best_->step * (1 + kSame);
    return result;
  }

  void seed() {
    if (limits_.stages == 0) {
      auto found = search_partition(problem_, blocks_, 1).best;
      if (!found.empty()) best_ = found.front();
      return;
    }
    best_ = climb_stage_count(problem_, blocks_, limits_.stages);
  }

  void list_stage_counts() {
    const int layers = static_cast<int>(blocks_.size());
    const int first = limits_.stages == 0 ? 1 : limits_.stages;
    const int last = limits_.stages == 0 ? layers : limits_.stages;
    for (int stages = first; stages <= last; ++stages) {
      MipShape any;
      any.stages = stages;
      if (!cut_ranges(problem_, blocks_, any)) continue;
      Candidate candidate;
      candidate.known.stages = stages;
      candidate.known.lower_bound = stage_count_lower_bound(problem_, blocks_, stages);
      if (best_ && static_cast<int>(best_->ends.size()) == stages) {
        candidate.known.step = best_->step;
      }
      candidates_.push_back(candidate);
    }
  }

  Candidate* lowest() {
    const auto found = std::min_element(
        candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
          return a.known.lower_bound < b.known.lower_bound;
        });
    return found == candidates_.end() ? nullptr : &*found;
  }

  bool closed(const Candidate& candidate) const {
    return candidate.solved ||
           (best_ && candidate.known.lower_bound >= best_->step * (1 - kSame / 2));
  }

  bool spent() const { return iterations_ >= limits_.iterations || seconds_left() <= 0; }

  double seconds_left() const {
    const std::chrono::duration<double> used = std::chrono::steady_clock::now() - began_;
    return limits_.seconds - used.count();
  }

  ProgramLimits program_limits(const PartitionProgram& program, bool relaxed) const {
    ProgramLimits limits;
    limits.relaxed = relaxed;
    limits.iterations = limits_.iterations - iterations_;
    limits.seconds = seconds_left();
    if (best_) limits.enough = best_->step / program.time_unit();
    return limits;
  }

  void raise(Candidate& candidate, double bound) {
    candidate.known.lower_bound = std::max(candidate.known.lower_bound, bound);
  }

  void relax(Candidate& candidate) {
    candidate.relaxed = true;
    const MipShape wanted = shape(candidate.known.stages);
    const auto ranges = cut_ranges(problem_, blocks_, wanted);
    if (!ranges) return raise(candidate, wanted.cutoff);
    const PartitionProgram program(problem_, blocks_, wanted, *ranges);
    const ProgramSolution solution =
        solve_program(program.program(), program_limits(program, true));
    count(candidate, solution);
    raise(candidate, std::min(wanted.cutoff, solution.bound * program.time_unit()));
  }

  void solve(Candidate& candidate) {
    candidate.solved = true;
    const int stages = candidate.known.stages;
    const MipShape wanted = shape(stages);
    const auto ranges = cut_ranges(problem_, blocks_, wanted);
    if (!ranges) return raise(candidate, wanted.cutoff);
    const PartitionProgram program(problem_, blocks_, wanted, *ranges);
    std::vector<std::pair<int, double>> start;
    if (best_ && static_cast<int>(best_->ends.size()) == stages) {
      start = program.start(best_->ends);
    }
    const ProgramSolution solution =
        solve_program(program.program(), program_limits(program, false), start);
    count(candidate, solution);
    raise(candidate, std::min(wanted.cutoff, solution.bound * program.time_unit()));
    if (solution.end != ProgramSolution::End::limit) candidate.solved = false;
    if (!solution.columns.empty()) {
      check(candidate, solution, program.ends(solution.columns), program.time_unit());
    }
  }

  void check(Candidate& candidate, const ProgramSolution& solution, std::vector<int> ends,
             double unit) {
    const StageSchedule schedule = evaluate_stages(problem_, stages_of(blocks_, ends));
    // Within the solver's tolerance of (4), but not within the device.
    if (!schedule.feasible) return;
    (void)solution; (void)unit;
    candidate.known.step = std::min(candidate.known.step, schedule.step);
    if (!best_ || schedule.step < best_->step) best_ = Partition{std::move(ends), schedule.step};
  }

  void count(Candidate& candidate, const ProgramSolution& solution) {
    iterations_ += solution.iterations;
    candidate.known.nodes += solution.nodes;
    nodes_ += solution.nodes;
  }

  MipResult report() {
    MipResult result;
    result.nodes = nodes_;
    result.iterations = iterations_;
    for (const Candidate& candidate : candidates_) result.stage_counts.push_back(candidate.known);
    if (!best_) return result;
    result.ends = best_->ends;
    result.step = best_->step;
    const Candidate* const least = lowest();
    result.lower_bound = std::min(best_->step, least->known.lower_bound);
    result.gap = best_->step > 0 ? (best_->step - result.lower_bound) / best_->step : 0;
    result.exact = result.gap <= kSame;
    return result;
  }

  const EvaluatorProblem& problem_;
  const std::vector<BlockCosts>& blocks_;
  const MipLimits& limits_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::optional<Partition> best_;
  std::vector<Candidate> candidates_;
  std::int64_t iterations_ = 0;
  std::int64_t nodes_ = 0;
};

}  // namespace

MipResult solve_partition_mip(const EvaluatorProblem& problem,
                              const std::vector<BlockCosts>& blocks, const MipLimits& limits) {
  FERRY_CHECK(!blocks.empty() && limits.stages >= 0, "a chain and a stage count");
  FERRY_CHECK(limits.stages <= static_cast<int>(blocks.size()), "a layer for every stage");
  return MipSearch(problem, blocks, limits).run();
}

}  // namespace ferry
