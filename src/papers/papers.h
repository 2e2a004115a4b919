// Papers' programs: the schedules of published systems as they stand, under their own cost models,
// as plans that only tell time. What a paper leaves out (first loads, updates, contention) is left
// out.
#pragma once

#include "planner/planner.h"

namespace ferry::papers {

/// Answers a question with `papers.pure`. The question may be without a model: the profile's chain
/// stands for it then. Throws UserError for a strategy without a program, auto among them, or a
/// question whose parts do not belong together.
PlanAnswer answer(const PlanQuestion& question);

}  // namespace ferry::papers
