// What a little more memory of each kind would bring: the same question with more of it, planned
// anew.
#pragma once

#include <string>
#include <vector>

#include "base/progress.h"
#include "planner/planner.h"

namespace ferry {

/// One kind of memory, and a step with more of it.
struct MoreMemory {
  std::string what;      // "each device", "gpu0", "DRAM", "each drive", "shared memory"
  Bytes more;            // so much
  Bytes then;            // what there is of it with that
  std::string strategy;  // of the plan with it
  Micros step;           // predicted with it; never longer than without
  Micros saved;          // of the step without it; 0: nothing
};

/// What is tried of so much: a GiB. A 16th of it where a GiB is more than that or less than a
/// thousandth, to a whole MiB below a GiB and a whole GiB above, but at least a MiB. Of devices it
/// is an eighth, to a whole MiB.
Bytes little_more(Bytes there);

/// Of device memory, of DRAM and, where there are drives, of their room: of all devices and all
/// drives at once. Where places share one memory that is one row, with another of devices whose
/// budget ends before it. One plan per row, made side by side, which the listener hears of. `now`
/// answers `question`, and more memory can always be left unused: where the search finds only
/// slower plans with it, nothing is saved. Requires: what `planner` requires, and that it may be
/// called by several threads.
std::vector<MoreMemory> what_more_memory_brings(const PlanQuestion& question, const Planned& now,
                                                const Planner& planner, PhaseListener& listener);

}  // namespace ferry
