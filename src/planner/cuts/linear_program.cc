#include "planner/cuts/linear_program.h"

#include <map>

namespace ferry {

void LinearProgram::add_row(const LinearForm& form, double upper) {
  std::map<int, double> sums;
  for (const auto& [column, factor] : form.terms()) sums[column] += factor;
  LinearRow row;
  for (const auto& [column, factor] : sums) {
    if (factor != 0) row.terms.emplace_back(column, factor);
  }
  row.lower = -form.constant();
  row.upper = upper - form.constant();
  rows_.push_back(std::move(row));
}

}  // namespace ferry
