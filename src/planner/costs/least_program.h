// A small linear program: the least that a variable can be under inequalities. Bounds on a step are
// such values (capacity_bound.h).
#pragma once

#include <vector>

namespace ferry {

class LeastProgram {
 public:
  /// The number of a variable. None is negative.
  using Variable = int;

  struct Term {
    double factor;
    Variable variable;
  };

  /// A variable that may well be of about this size; greater than 0. Only rounding depends on it.
  Variable add(double size) {
    sizes_.push_back(size);
    return static_cast<Variable>(sizes_.size()) - 1;
  }

  /// Demands that the terms add up to no less.
  void at_least(double least, const std::vector<Term>& terms) { rows_.push_back({terms, least}); }

  /// The least that the variable can be, within rounding; less where finding it takes too long;
  /// infinity where nothing meets all demands, nor nearly. O(rows * variables) for each of few
  /// hundred steps at most.
  double least_of(Variable variable) const;

 private:
  struct Row {
    std::vector<Term> terms;
    double least;
  };

  std::vector<double> sizes_;
  std::vector<Row> rows_;
};

}  // namespace ferry
