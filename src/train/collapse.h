// Notices that a model has collapsed: its loss is that of guessing and no gradient leads away from
// there, or it has become far worse than guessing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ferry {

class CollapseWatch {
 public:
  /// So many steps in a row make a collapse; fewer are a suspicion.
  static constexpr int kSteps = 3;

  explicit CollapseWatch(std::int64_t vocabulary);

  /// Hears of a step that learned something. `done` counts it; the loss is that before its update.
  void step(int done, double loss, double grad_norm);

  /// The step just heard of made it a collapse. Once, unless a good step came between.
  bool has_just_collapsed() const { return has_just_collapsed_; }

  /// The steps done in the last state that a step has shown not to be collapsed. Of what has been
  /// saved since, nobody knows yet. Nothing when there was none.
  std::optional<int> last_good() const { return last_good_; }

  /// A collapse that it has told of before counts as new with the next step that looks collapsed.
  void tell_again();

  /// What to tell when it has just collapsed, with this loss and gradient norm.
  std::string words(double loss, double grad_norm) const;

 private:
  const double guessing_;  // the loss when all words of the vocabulary are as likely
  int in_a_row_ = 0;       // steps that looked collapsed since the last good one
  bool has_just_collapsed_ = false;
  std::optional<int> last_good_;  // steps done in the last state whose loss did not
};

}  // namespace ferry
