// The only door to HiGHS: solves a LinearProgram, on one thread and with a fixed seed, so that
// equal programs and limits give equal answers as long as the time limit is not reached.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/cuts/linear_program.h"

namespace ferry {

struct ProgramLimits {
  std::int64_t iterations = -1;  // of the simplex method, counted at the solver's own checkpoints;
                                 // negative: no limit
  double seconds = kUnbounded;   // a safety net: an answer cut short by it may differ next time
  double enough = kUnbounded;    // a proven bound of this or more ends the search
  bool relaxed = false;          // integrality is dropped
};

struct ProgramSolution {
  enum class End { optimal, infeasible, limit };
  End end = End::limit;
  double bound = -kUnbounded;     // no solution has a lower objective; +infinity when infeasible
  double objective = kUnbounded;  // of `columns`
  std::vector<double> columns;    // the best solution found; empty: none
  std::int64_t nodes = 0;
  std::int64_t iterations = 0;
};

/// True when ferry was built with HiGHS (FERRY_HIGHS).
bool has_program_solver();

/// Solves the program, starting from a solution of which some columns are given (column, value);
/// HiGHS computes the others. "Infeasible" is believed only from two runs, with and without
/// presolve. Throws ResourceError when ferry was built without HiGHS or the solver fails.
ProgramSolution solve_program(const LinearProgram& program, const ProgramLimits& limits,
                              const std::vector<std::pair<int, double>>& start = {});

}  // namespace ferry
