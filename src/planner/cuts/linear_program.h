// A mixed-integer linear program as plain data: columns with bounds and costs, rows with bounds,
// minimised. Knows no solver; solve_program.h solves it.
#pragma once

#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

namespace ferry {

inline constexpr double kUnbounded = std::numeric_limits<double>::infinity();

/// A sum of factor * column, plus a constant. A column may occur more than once.
class LinearForm {
 public:
  LinearForm() = default;
  explicit LinearForm(double constant) : constant_(constant) {}

  static LinearForm of(int column, double factor = 1) { return LinearForm().add(column, factor); }

  LinearForm& add(int column, double factor) {
    if (factor != 0) terms_.emplace_back(column, factor);
    return *this;
  }
  LinearForm& add(const LinearForm& other, double factor = 1) {
    for (const auto& [column, value] : other.terms_) add(column, factor * value);
    constant_ += factor * other.constant_;
    return *this;
  }

  const std::vector<std::pair<int, double>>& terms() const { return terms_; }
  double constant() const { return constant_; }

 private:
  std::vector<std::pair<int, double>> terms_;  // column, factor
  double constant_ = 0;
};

struct LinearColumn {
  double lower = 0;
  double upper = kUnbounded;
  double cost = 0;  // in the objective
  bool integer = false;
};

struct LinearRow {
  double lower = -kUnbounded;
  double upper = kUnbounded;
  std::vector<std::pair<int, double>> terms;  // ascending by column, each column once
};

class LinearProgram {
 public:
  /// Adds a column and returns its number.
  int add(const LinearColumn& column) {
    columns_.push_back(column);
    return static_cast<int>(columns_.size()) - 1;
  }

  /// Demands form >= 0 or form == 0.
  void at_least_zero(const LinearForm& form) { add_row(form, kUnbounded); }
  void equals_zero(const LinearForm& form) { add_row(form, 0); }

  const std::vector<LinearColumn>& columns() const { return columns_; }
  const std::vector<LinearRow>& rows() const { return rows_; }

 private:
  void add_row(const LinearForm& form, double upper);

  std::vector<LinearColumn> columns_;
  std::vector<LinearRow> rows_;
};

}  // namespace ferry
