// What a step takes at least because tasks wait for one another.
#pragma once

#include "base/units.h"
#include "planner/costs/chain.h"
#include "planner/costs/question.h"

namespace ferry {

/// One micro-batch's backwards from the head to the first trainable block, at their fastest: with
/// clipping all of them lie before the norm.
Micros backward_with_sums(const Chain& chain);

/// By how much longer the backwards of all micro-batches take than those of one. A sum takes them
/// one after the other, and what passes from device to device takes time. Proof: term 3 of
/// docs/planner.md, "The lower bound".
Micros sum_order_delay(const PlanQuestion& question, const Chain& chain);

/// From the end of the first block's last backward to its next forward: a device updates it, or its
/// sum comes down, the host updates it and new weights come up.
Micros renewal_of_first(const PlanQuestion& question, const Chain& chain);

}  // namespace ferry
