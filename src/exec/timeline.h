// What ran when: recorded by the simulator and the trainer alike, written as a Chrome trace.
#pragma once

#include <filesystem>
#include <string>
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

/// One entry per Plan::resources.
std::vector<ResourceUse> resource_use(const Plan& plan, const Timeline& timeline);

/// Chrome trace JSON (docs/formats/timeline.md): one track per resource and flows along
/// `after`. Opens in Perfetto and chrome://tracing.
std::string to_chrome_trace(const Plan& plan, const Timeline& timeline);

}  // namespace ferry
