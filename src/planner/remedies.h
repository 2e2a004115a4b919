// What to change when nothing fits: each change is planned again before it is offered.
#pragma once

#include <string>
#include <vector>

#include "planner/planner.h"
#include "planner/strategy.h"

namespace ferry {

/// A changed question and how to say the change.
struct Change {
  std::string text;  // "budget.device: 96 MiB"
  PlanQuestion question;
  Bytes memory;  // how much more memory it asks for, for ranking
};

/// Changes that may make the question fit, given what its strategy lacks.
std::vector<Change> possible_changes(const PlanQuestion& question, const Shortage& lacking);

/// Those of them that fit, timed: least loss of speed per token first, then least memory. At most
/// three.
std::vector<Remedy> find_remedies(const PlanQuestion& question, const Shortage& lacking);

}  // namespace ferry
