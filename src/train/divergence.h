// A step whose numbers are no longer finite: what is thrown, and where it began.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/batches.h"
#include "plan/plan.h"
#include "spec/model_spec.h"
#include "train/home_states.h"
#include "train/places.h"

namespace ferry {

/// Loss, gradient norm or a weight is not finite; what() says which, without the step.
class Diverged : public UserError {
 public:
  /// `micro_batches`: those whose own loss is not finite; none when that is not what was found.
  Diverged(const std::string& what, int step, std::vector<int> micro_batches = {})
      : UserError(what), step_(step), micro_batches_(std::move(micro_batches)) {}

  int step() const { return step_; }  // from 0
  const std::vector<int>& micro_batches() const { return micro_batches_; }

 private:
  int step_;
  std::vector<int> micro_batches_;
};

/// The last step in which each task ran (StepRunner::last_runs()); -1: in none.
using LastRuns = IdVector<TaskId, int>;

/// Whether weights and states at home are still those after `done` steps: nothing of a later step
/// has written there. Requires: the steps before are finished, nothing is in flight.
bool is_untouched(const Plan& plan, const LastRuns& ran, int done);

/// The parameter whose gradient of `step` is not finite and was made first: backward goes from the
/// last block to the first. Nothing when there is none, or none to look at any more.
/// Requires: nothing is in flight.
std::optional<std::string> first_bad_gradient(const ModelSpec& model, const Plan& plan,
                                              const Binding& binding, const LastRuns& ran,
                                              int step);

/// "rows of the step: 3, 4": which samples of the data the step learned from, counted from 1; where
/// the loss of some micro-batches is not finite, theirs.
std::string rows_text(Batches& batches, const Diverged& error);

/// The first parameter whose weights or moments are not all finite. Only while nothing is in
/// flight.
std::optional<std::string> first_bad_state(const ModelSpec& model, const HomeStates& states);

}  // namespace ferry
