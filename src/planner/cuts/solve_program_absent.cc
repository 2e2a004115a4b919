// In place of solve_program.cc in a build with FERRY_HIGHS=OFF.
#include "base/error.h"
#include "planner/cuts/solve_program.h"

namespace ferry {

bool has_program_solver() { return false; }

ProgramSolution solve_program(const LinearProgram&, const ProgramLimits&,
                              const std::vector<std::pair<int, double>>&) {
  throw ResourceError("ferry was built without HiGHS; configure with FERRY_HIGHS=ON");
}

}  // namespace ferry
