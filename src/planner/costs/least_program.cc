#include "planner/costs/least_program.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>

namespace ferry {
namespace {

constexpr double kTiny = 1e-11;  // where sizes are about 1
constexpr double kFar = 1e-6;    // likewise: more than rounding makes of what just fits
constexpr int kMostPivots = 500;

// The dual simplex method. Row r says: its variable is right(r) and, over the columns, at(r, c)
// times c's variable; the last row says so of the goal. Its factors are never negative, nor are
// variables: so the goal is never less than its right side, from the first step on.
class Tableau {
 public:
  Tableau(std::size_t rows, std::size_t columns)
      : rows_(rows), columns_(columns), cells_((rows + 1) * (columns + 1)) {}

  double& at(std::size_t row, std::size_t column) { return cells_[row * (columns_ + 1) + column]; }
  double& right(std::size_t row) { return at(row, columns_); }
  std::size_t goal() const { return rows_; }

  /// So that the largest factor of a row is 1.
  void scale(std::size_t row) {
    double largest = 0;
    for (std::size_t c = 0; c < columns_; ++c) largest = std::max(largest, std::abs(at(row, c)));
    if (largest <= 0) return;
    for (std::size_t c = 0; c <= columns_; ++c) at(row, c) /= largest;
  }

  /// Whose variable is most negative; none: all demands are met.
  std::optional<std::size_t> worst_row() {
    std::optional<std::size_t> worst;
    double least = -kTiny;
    for (std::size_t r = 0; r < rows_; ++r) {
      if (right(r) >= least) continue;
      least = right(r);
      worst = r;
    }
    return worst;
  }

  /// Whose variable raises the row's at the least cost; none: no variable does.
  std::optional<std::size_t> cheapest_column(std::size_t row) {
    std::optional<std::size_t> cheapest;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t c = 0; c < columns_; ++c) {
      if (at(row, c) <= kTiny) continue;
      const double cost = at(goal(), c) / at(row, c);
      if (cost >= least) continue;
      least = cost;
      cheapest = c;
    }
    return cheapest;
  }

  /// The row's variable and the column's change places.
  void pivot(std::size_t row, std::size_t column) {
    const double factor = at(row, column);
    for (std::size_t c = 0; c <= columns_; ++c) at(row, c) /= -factor;
    at(row, column) = 1 / factor;
    for (std::size_t r = 0; r <= rows_; ++r) {
      const double share = r == row ? 0 : at(r, column);
      if (share == 0) continue;
      at(r, column) = 0;
      for (std::size_t c = 0; c <= columns_; ++c) at(r, c) += share * at(row, c);
    }
  }

 private:
  std::size_t rows_;
  std::size_t columns_;
  std::vector<double> cells_;
};

}  // namespace

double LeastProgram::least_of(Variable variable) const {
  Tableau tableau(rows_.size(), sizes_.size());
  for (std::size_t r = 0; r < rows_.size(); ++r) {  // its variable: what is more than asked
    for (const auto& [factor, v] : rows_[r].terms) {
      const auto column = static_cast<std::size_t>(v);
      tableau.at(r, column) += factor * sizes_[column];
    }
    tableau.right(r) = -rows_[r].least;
    tableau.scale(r);
  }
  const auto goal = static_cast<std::size_t>(variable);
  tableau.at(tableau.goal(), goal) = 1;
  for (int pivots = 0; pivots < kMostPivots; ++pivots) {
    const auto row = tableau.worst_row();
    if (!row) break;
    const auto column = tableau.cheapest_column(*row);
    if (!column && tableau.right(*row) < -kFar) return std::numeric_limits<double>::infinity();
    if (!column) break;
    tableau.pivot(*row, *column);
  }
  return tableau.right(tableau.goal()) * sizes_[goal];
}

}  // namespace ferry
