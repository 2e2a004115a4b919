#include "planner/cuts/mip.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>

#include "base/check.h"
#include "planner/cuts/every_partition.h"
#include "planner/cuts/mip_model.h"
#include "planner/cuts/solve_program.h"

namespace ferry {
namespace {

constexpr double kSame = 1e-6;          // relative; what the solver's arithmetic can tell apart
constexpr int kRelaxedIterations = 10;  // of a relaxation cost as one among cuts and branching
constexpr int kKicks = 50;              // milliseconds, against the seconds that a good start saves
// Evaluating a partition takes about as long as one unit of effort. So where partitions are few,
// the program gets no more than evaluating them all would take, or this.
constexpr std::int64_t kFewPartitions = 2'000'000;
constexpr std::int64_t kEffortOnFew = 250'000;

class MipSearch {
 public:
  MipSearch(const EvaluatorProblem& problem, const std::vector<BlockCosts>& blocks,
            const MipLimits& limits)
      : problem_(problem), blocks_(blocks), limits_(limits) {}

  MipResult run() {
    seed();
    list_stage_counts();
    while (Candidate* const next = most_promising()) {
      if (spent()) break;
      if (next->relaxed) {
        solve(*next);
      } else {
        relax(*next);
      }
    }
    return report();
  }

 private:
  struct Candidate {
    StageCountResult known;
    std::vector<int> ends;  // with the step known.step; empty: none seen
    bool relaxed = false;
    bool solved = false;
  };

  // Only what is faster than the fastest seen of this stage count is of interest. The other stage
  // counts' fastest would cut off more, but then most programs would have no solution, and HiGHS is
  // asked twice before that is believed.
  MipScope scope_of(const Candidate& candidate) const {
    MipScope result;
    result.stages = candidate.known.stages;
    result.every_micro_batch = limits_.every_micro_batch;
    const double known = candidate.ends.empty() && best_ ? best_->step : candidate.known.step;
    result.cutoff = known * (1 + kSame);
    return result;
  }

  void seed() {
    if (limits_.stages != 0) return;
    auto found = search_partition(problem_, blocks_, 1).best;
    if (!found.empty()) best_ = std::move(found.front());
  }

  void list_stage_counts() {
    const int layers = static_cast<int>(blocks_.size());
    const int first = limits_.stages == 0 ? 1 : limits_.stages;
    const int last = limits_.stages == 0 ? layers : limits_.stages;
    for (int stages = first; stages <= last; ++stages) {
      MipScope any;
      any.stages = stages;
      if (!cut_ranges(problem_, blocks_, any)) continue;
      Candidate candidate;
      candidate.known.stages = stages;
      candidate.known.lower_bound = stage_count_lower_bound(problem_, blocks_, stages);
      if (best_ && static_cast<int>(best_->ends.size()) == stages) offer(candidate, *best_);
      candidates_.push_back(candidate);
    }
  }

  // The stage count with the lowest bound, of those that may still hold something faster.
  Candidate* most_promising() {
    Candidate* found = nullptr;
    for (Candidate& candidate : candidates_) {
      if (candidate.solved || closed(candidate)) continue;
      if (!found || candidate.known.lower_bound < found->known.lower_bound) found = &candidate;
    }
    return found;
  }

  bool closed(const Candidate& candidate) const {
    const double bound = candidate.known.lower_bound;
    return bound == kUnbounded || (best_ && bound >= best_->step * (1 - kSame / 2));
  }

  bool spent() const { return effort_ >= limits_.effort || seconds_left() <= 0; }

  static std::int64_t rows_of(const PartitionProgram& program) {
    return static_cast<std::int64_t>(program.program().rows().size());
  }

  double seconds_left() const {
    const std::chrono::duration<double> used = std::chrono::steady_clock::now() - began_;
    return limits_.seconds - used.count();
  }

  ProgramLimits program_limits(const Candidate& candidate, const PartitionProgram& program,
                               bool relaxed) const {
    ProgramLimits limits;
    limits.relaxed = relaxed;
    std::int64_t effort = limits_.effort - effort_;
    if (const auto count = few(candidate))
      effort = std::min(effort, std::max(*count, kEffortOnFew));
    limits.iterations = effort / rows_of(program);
    if (relaxed) limits.iterations *= kRelaxedIterations;
    limits.seconds = seconds_left();
    if (best_) limits.enough = best_->step / program.time_unit();
    return limits;
  }

  void raise(Candidate& candidate, double bound) {
    candidate.known.lower_bound = std::max(candidate.known.lower_bound, bound);
  }

  // A good partition is the program's start, and makes it smaller.
  void climb(Candidate& candidate, int kicks) {
    auto found = climb_stage_count(problem_, blocks_, candidate.known.stages, kicks);
    if (found) offer(candidate, std::move(*found));
  }

  void offer(Candidate& candidate, Partition partition) {
    if (partition.step < candidate.known.step) {
      candidate.known.step = partition.step;
      candidate.ends = partition.ends;
    }
    if (!best_ || partition.step < best_->step) best_ = std::move(partition);
  }

  void relax(Candidate& candidate) {
    climb(candidate, 0);
    candidate.relaxed = true;
    if (!closed(candidate)) run_program(candidate, true);
  }

  void solve(Candidate& candidate) {
    candidate.solved = true;
    climb(candidate, kKicks);
    if (!closed(candidate)) run_program(candidate, false);
    if (!closed(candidate) && few(candidate) && !spent()) evaluate_all(candidate);
  }

  /// How many partitions there are into that stage count, if they are few.
  std::optional<std::int64_t> few(const Candidate& candidate) const {
    const int layers = static_cast<int>(blocks_.size());
    const double count = partition_count(layers, candidate.known.stages);
    if (count > kFewPartitions) return std::nullopt;
    return static_cast<std::int64_t>(count);
  }

  void evaluate_all(Candidate& candidate) {
    effort_ += *few(candidate);
    std::optional<Partition> fastest = fastest_partition(problem_, blocks_, candidate.known.stages);
    raise(candidate, fastest ? fastest->step : kUnbounded);
    candidate.known.evaluated = true;
    if (fastest) offer(candidate, std::move(*fastest));
  }

  void run_program(Candidate& candidate, bool relaxed) {
    const MipScope wanted = scope_of(candidate);
    const auto ranges = cut_ranges(problem_, blocks_, wanted);
    if (!ranges) return raise(candidate, wanted.cutoff);
    const PartitionProgram program(problem_, blocks_, wanted, *ranges);
    std::vector<std::pair<int, double>> start;
    if (!candidate.ends.empty()) start = program.cuts().start(candidate.ends);
    const ProgramSolution solution =
        solve_program(program.program(), program_limits(candidate, program, relaxed), start);
    iterations_ += solution.iterations;
    const std::int64_t iterations =
        relaxed ? solution.iterations / kRelaxedIterations : solution.iterations;
    effort_ += std::max<std::int64_t>(1, iterations) * rows_of(program);
    nodes_ += solution.nodes;
    candidate.known.nodes += solution.nodes;
    // With a cutoff, "infeasible" means that nothing is faster than that.
    raise(candidate, std::min(wanted.cutoff, solution.bound * program.time_unit()));
    if (relaxed || solution.columns.empty()) return;
    std::vector<int> ends = program.cuts().ends(solution.columns);
    const StageSchedule schedule = evaluate_stages(problem_, stages_of(blocks_, ends));
    if (!schedule.feasible) return;  // a stage exceeds G, but by less than the solver can tell
    check(solution, schedule.step, program.time_unit());
    offer(candidate, {std::move(ends), schedule.step});
  }

  // The program's optimum is the evaluator's step; a solution that was not polished may start
  // stages later than needed. A stage overhead is charged for the smallest rest of an upload, which
  // the solver may not see: then the step is the evaluator's, and only the bound must hold.
  void check(const ProgramSolution& solution, double step, double unit) const {
    const double objective = solution.objective * unit;
    FERRY_CHECK(step >= solution.bound * unit * (1 - kSame), "the program's bound holds");
    if (problem_.switches.stage_overhead > 0) return;
    FERRY_CHECK(step <= objective * (1 + kSame), "the program's times are the evaluator's");
    FERRY_CHECK(solution.end != ProgramSolution::End::optimal || step >= objective * (1 - kSame),
                "the program's optimum is the evaluator's");
  }

  MipResult report() {
    MipResult result;
    result.nodes = nodes_;
    result.iterations = iterations_;
    double least = kUnbounded;
    for (const Candidate& candidate : candidates_) {
      result.stage_counts.push_back(candidate.known);
      least = std::min(least, candidate.known.lower_bound);
    }
    if (!best_) {
      result.exact = least == kUnbounded;
      return result;
    }
    result.ends = best_->ends;
    result.step = best_->step;
    result.lower_bound = std::min(best_->step, least);
    if (best_->step > 0) result.gap = (best_->step - result.lower_bound) / best_->step;
    result.exact = result.gap <= kSame;
    return result;
  }

  const EvaluatorProblem& problem_;
  const std::vector<BlockCosts>& blocks_;
  const MipLimits& limits_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::optional<Partition> best_;
  std::vector<Candidate> candidates_;
  std::int64_t effort_ = 0;
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

PartitionResult mip_partition(const EvaluatorProblem& problem,
                              const std::vector<BlockCosts>& blocks) {
  constexpr double kGranted = 10;  // seconds; a large program then keeps a gap
  MipLimits limits;
  limits.seconds = kGranted;
  MipResult found = solve_partition_mip(problem, blocks, limits);
  PartitionResult result;
  if (!found.ends.empty()) result.best.push_back({std::move(found.ends), found.step});
  result.exact = found.exact;
  result.lower_bound = found.lower_bound;
  result.gap = found.gap;
  return result;
}

}  // namespace ferry
