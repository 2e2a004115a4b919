// What ran when: recorded by the simulator and the trainer alike.
#pragma once

#include <vector>

#include "exec/driver.h"
#include "plan/plan.h"

namespace ferry {

/// One task on its resource. Times count from the start of the run.
struct Span {
  TaskRun run;
  Micros start;
  Micros end;
};

struct Timeline {
  std::vector<Span> spans;  // in order of `end`
};

/// Per-resource sums over a timeline.
struct ResourceUse {
  Micros busy;
  Bytes bytes;
  double utilisation = 0;  // busy / span of the timeline
};

IdVector<ResourceId, ResourceUse> resource_use(const Plan& plan, const Timeline& timeline);

}  // namespace ferry
