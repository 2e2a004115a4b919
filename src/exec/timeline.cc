#include "exec/timeline.h"

#include <algorithm>

namespace ferry {
IdVector<ResourceId, ResourceUse> resource_use(const Plan& plan, const Timeline& timeline) {
  IdVector<ResourceId, ResourceUse> use(plan.resources.size());
  if (timeline.spans.empty()) return use;
  Micros begin = timeline.spans.front().start;
  Micros end = timeline.spans.front().end;
  for (const Span& span : timeline.spans) {
    const Task& task = plan.tasks[span.run.task];
    ResourceUse& one = use[task.resource];
    one.busy += span.end - span.start;
    one.bytes += moved_bytes(task);
    begin = std::min(begin, span.start);
    end = std::max(end, span.end);
  }
  const double total = (end - begin).count;
  for (ResourceUse& one : use) one.utilisation = total > 0 ? one.busy.count / total : 0.0;
  return use;
}

}  // namespace ferry
