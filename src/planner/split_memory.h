// One memory for several places: how much of it the simulated devices get, and how much the host.
#pragma once

#include "planner/remedies.h"

namespace ferry {

/// Answers a question whose places share memory (PlanQuestion::shared): together they take no more
/// than it has, and the plan's budgets say who got how much. Of the splits tried the fastest plan.
/// `answer` answers for given budgets. Requires: question.shared.
AnswerWithoutRemedies answer_in_shared_memory(const PlanQuestion& question, const Answerer& answer);

}  // namespace ferry
