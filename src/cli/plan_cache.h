// Plans already made: `plans` in the cache folder, found again by everything that a plan depends
// on.
#pragma once

#include <optional>

#include "planner/planner.h"

namespace ferry {

/// The answer to an equal question, proved and simulated again, or nothing. A file that is damaged
/// or of another release is no answer.
std::optional<Planned> find_cached_plan(const PlanQuestion& question);

/// Keeps an answer. A cache that cannot be written is done without.
void cache_plan(const PlanQuestion& question, const Planned& planned);

/// make_plan() unless an equal question was answered before. The listener hears of the search.
PlanAnswer plan_or_cached(const PlanQuestion& question, PhaseListener& listener);

}  // namespace ferry
