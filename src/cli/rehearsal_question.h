// The question whose plan shows what simulated devices compute while a step goes on
// (train/rehearsal.h).
#pragma once

#include <cstddef>
#include <vector>

#include "planner/planner.h"

namespace ferry {

/// The machine without what holds copies up, and without drives.
Machine without_links(Machine machine);

/// The question about few layers on some of its devices, streamed through them, so that copies and
/// updates are beside what they compute; without_links(), since devices that wait show nothing. No
/// pass searches: how good its plan is does not matter. The profile is that of the question.
PlanQuestion rehearsal_question(const PlanQuestion& question,
                                const std::vector<std::size_t>& devices);

}  // namespace ferry
