// What a step takes at least because not everything fits on the devices.
#pragma once

#include "base/units.h"
#include "planner/costs/chain.h"
#include "planner/costs/question.h"

namespace ferry {

/// Where W and S may be at home.
enum class Homes { anywhere, off_devices };

/// No plan that trains, with states at home there, is faster: the least step that meets the demands
/// of term 4 of docs/planner.md, "The lower bound", as all plans do that run backwards again from
/// there on.
Micros capacity_bound(const PlanQuestion& question, const Chain& chain, Homes homes,
                      const AgainFrom& again = kOnce);

}  // namespace ferry
