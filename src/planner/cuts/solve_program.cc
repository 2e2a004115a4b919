#include "planner/cuts/solve_program.h"

#include <algorithm>
#include <memory>

#include "base/check.h"
#include "base/error.h"
#include "interfaces/highs_c_api.h"

namespace ferry {
namespace {

constexpr double kRelativeGap = 1e-7;  // "optimal" means: proven within this part of the objective

struct HighsDeleter {
  void operator()(void* highs) const { Highs_destroy(highs); }
};
using HighsHandle = std::unique_ptr<void, HighsDeleter>;

void expect_ok(HighsInt status, const char* call) {
  if (status == kHighsStatusError) throw ResourceError(std::string("HiGHS failed in ") + call);
}

// HiGHS calls back at its checkpoints; with one thread these are the same in every run.
struct StopRule {
  std::int64_t iterations;
  double enough;
};

void stop_when_reached(int, const char*, const HighsCallbackDataOut* out, HighsCallbackDataIn* in,
                       void* data) {
  const StopRule& rule = *static_cast<const StopRule*>(data);
  const bool spent = rule.iterations >= 0 && out->mip_total_lp_iterations >= rule.iterations;
  in->user_interrupt = spent || out->mip_dual_bound >= rule.enough;
}

void pass(void* highs, const LinearProgram& program, bool relaxed) {
  std::vector<double> cost, lower, upper, row_lower, row_upper, values;
  std::vector<HighsInt> integrality, starts, columns;
  for (const LinearColumn& column : program.columns()) {
    cost.push_back(column.cost);
    lower.push_back(column.lower);
    upper.push_back(column.upper);
    integrality.push_back(column.integer && !relaxed ? kHighsVarTypeInteger
                                                     : kHighsVarTypeContinuous);
  }
  for (const LinearRow& row : program.rows()) {
    starts.push_back(static_cast<HighsInt>(columns.size()));
    row_lower.push_back(row.lower);
    row_upper.push_back(row.upper);
    for (const auto& [column, factor] : row.terms) {
      columns.push_back(column);
      values.push_back(factor);
    }
  }
  const auto count = static_cast<HighsInt>(cost.size());
  const auto rows = static_cast<HighsInt>(row_lower.size());
  const auto entries = static_cast<HighsInt>(values.size());
  const HighsInt status =
      relaxed ? Highs_passLp(highs, count, rows, entries, kHighsMatrixFormatRowwise,
                             kHighsObjSenseMinimize, 0, cost.data(), lower.data(), upper.data(),
                             row_lower.data(), row_upper.data(), starts.data(), columns.data(),
                             values.data())
              : Highs_passMip(highs, count, rows, entries, kHighsMatrixFormatRowwise,
                              kHighsObjSenseMinimize, 0, cost.data(), lower.data(), upper.data(),
                              row_lower.data(), row_upper.data(), starts.data(), columns.data(),
                              values.data(), integrality.data());
  expect_ok(status, "passing the program");
}

ProgramSolution::End end_of(HighsInt status) {
  switch (status) {
    case kHighsModelStatusOptimal:
      return ProgramSolution::End::optimal;
    case kHighsModelStatusInfeasible:
    case kHighsModelStatusUnboundedOrInfeasible:  // our objectives are bounded from below
      return ProgramSolution::End::infeasible;
    case kHighsModelStatusTimeLimit:
    case kHighsModelStatusIterationLimit:
    case kHighsModelStatusSolutionLimit:
    case kHighsModelStatusInterrupt:
    case kHighsModelStatusObjectiveBound:
      return ProgramSolution::End::limit;
    default:
      throw ResourceError("HiGHS ended with model status " + std::to_string(status));
  }
}

ProgramSolution read(void* highs, const LinearProgram& program, bool relaxed) {
  ProgramSolution result;
  result.end = end_of(Highs_getModelStatus(highs));
  HighsInt simplex = 0;
  Highs_getIntInfoValue(highs, "simplex_iteration_count", &simplex);
  result.iterations = simplex;
  if (!relaxed) {
    Highs_getInt64InfoValue(highs, "mip_node_count", &result.nodes);
    Highs_getDoubleInfoValue(highs, "mip_dual_bound", &result.bound);
  }
  if (result.end == ProgramSolution::End::infeasible) result.bound = kUnbounded;
  HighsInt known = kHighsSolutionStatusNone;
  Highs_getIntInfoValue(highs, "primal_solution_status", &known);
  if (known != kHighsSolutionStatusFeasible) return result;
  result.objective = Highs_getObjectiveValue(highs);
  if (relaxed && result.end == ProgramSolution::End::optimal) result.bound = result.objective;
  result.columns.resize(program.columns().size());
  std::vector<double> duals(program.columns().size());
  std::vector<double> rows(program.rows().size());
  std::vector<double> row_duals(program.rows().size());
  expect_ok(
      Highs_getSolution(highs, result.columns.data(), duals.data(), rows.data(), row_duals.data()),
      "reading the solution");
  return result;
}

void set_options(void* h, const ProgramLimits& limits, const char* presolve) {
  expect_ok(Highs_setBoolOptionValue(h, "output_flag", 0), "output_flag");
  expect_ok(Highs_setIntOptionValue(h, "threads", 1), "threads");
  expect_ok(Highs_setIntOptionValue(h, "random_seed", 0), "random_seed");
  expect_ok(Highs_setStringOptionValue(h, "presolve", presolve), "presolve");
  expect_ok(Highs_setDoubleOptionValue(h, "mip_rel_gap", kRelativeGap), "mip_rel_gap");
  expect_ok(Highs_setDoubleOptionValue(h, "mip_abs_gap", 0), "mip_abs_gap");
  // Our programs come with a good start, so the time is for the proof.
  expect_ok(Highs_setBoolOptionValue(h, "mip_heuristic_run_feasibility_jump", 0),
            "mip_heuristic_run_feasibility_jump");
  expect_ok(Highs_setDoubleOptionValue(h, "mip_heuristic_effort", 0), "mip_heuristic_effort");
  expect_ok(Highs_setDoubleOptionValue(h, "time_limit", std::max(0.0, limits.seconds)),
            "time_limit");
  if (limits.relaxed && limits.iterations >= 0) {
    expect_ok(Highs_setIntOptionValue(h, "simplex_iteration_limit",
                                      static_cast<HighsInt>(limits.iterations)),
              "simplex_iteration_limit");
  }
}

void pass_start(void* h, const std::vector<std::pair<int, double>>& start) {
  if (start.empty()) return;
  std::vector<HighsInt> columns;
  std::vector<double> values;
  for (const auto& [column, value] : start) {
    columns.push_back(column);
    values.push_back(value);
  }
  expect_ok(Highs_setSparseSolution(h, static_cast<HighsInt>(columns.size()), columns.data(),
                                    values.data()),
            "passing the start");
}

ProgramSolution run(const LinearProgram& program, const ProgramLimits& limits,
                    const std::vector<std::pair<int, double>>& start, const char* presolve) {
  const HighsHandle highs(Highs_create());
  void* const h = highs.get();
  set_options(h, limits, presolve);
  pass(h, program, limits.relaxed);
  StopRule rule{limits.iterations, limits.enough};
  if (!limits.relaxed) {
    expect_ok(Highs_setCallback(h, stop_when_reached, &rule), "setting the callback");
    expect_ok(Highs_startCallback(h, kHighsCallbackMipInterrupt), "starting the callback");
    pass_start(h, start);
  }
  expect_ok(Highs_run(h), "solving");
  return read(h, program, limits.relaxed);
}

}  // namespace

bool has_program_solver() { return true; }

ProgramSolution solve_program(const LinearProgram& program, const ProgramLimits& limits,
                              const std::vector<std::pair<int, double>>& start) {
  ProgramSolution first = run(program, limits, start, "choose");
  if (first.end != ProgramSolution::End::infeasible) return first;
  // ERGO-Code/HiGHS#3296: presolve may declare a feasible program infeasible.
  ProgramSolution second = run(program, limits, start, "off");
  second.nodes += first.nodes;
  second.iterations += first.iterations;
  return second;
}

}  // namespace ferry
