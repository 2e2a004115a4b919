// What to change when nothing fits: each change is planned again before it is offered.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "planner/answer.h"
#include "planner/planner.h"

namespace ferry {

/// A changed question that fits, and how to say the change.
struct FittingChange {
  std::string text;          // "budget.device: 96 MiB"
  PlanQuestion question;     // with its profile
  Micros step;               // predicted
  Bytes memory;              // more than before, over all places
  std::string assumed = {};  // what the step counts on that is not known
};

/// How a changed question is answered.
using Answerer = std::function<AnswerWithoutRemedies(const PlanQuestion&)>;

/// Changes that make the question fit: a larger budget where it lacks, more of the host's DRAM
/// where a device lacks, a drive where there is none, smaller micro-batches with the same tokens
/// per step, shorter sequences, another strategy, activations by choice. The least loss of speed
/// per token first, then the least memory; at most three, a drive among them where one helps.
/// Requires: the question has a profile.
std::vector<FittingChange> find_changes(const PlanQuestion& question, const Shortage& lacking);

/// The first five kinds of them alone, for questions that `answer` answers.
std::vector<FittingChange> find_changes_of_size(const PlanQuestion& question,
                                                const Shortage& lacking, const Answerer& answer);

/// What the place lacks, and the changes.
DoesNotFit does_not_fit(const PlanQuestion& question, Shortage lacking,
                        std::vector<FittingChange> changes);

}  // namespace ferry
