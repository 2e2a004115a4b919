#include "report/stall.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace ferry {
namespace {

class Walk {
 public:
  Walk(const Plan& plan, const Timeline& timeline, int step)
      : plan_(plan), step_(step), spans_(plan.tasks.size()), before_(plan.tasks.size()) {
    for (const Span& span : timeline.spans) {
      if (span.run.step == step) spans_[span.run.task] = span;
      if (span.run.step == step - 1) before_[span.run.task] = span;
    }
    queue_before_.resize(plan.tasks.size());
    IdVector<ResourceId, TaskId> last(plan.resources.size());
    for (const TaskId id : plan.tasks.ids()) last[plan.tasks[id].resource] = id;  // of a step
    IdVector<ResourceId, bool> first(plan.resources.size(), true);
    for (const TaskId id : plan.tasks.ids()) {
      const ResourceId queue = plan.tasks[id].resource;
      queue_before_[id] = {last[queue], first[queue]};
      last[queue] = id;
      first[queue] = false;
    }
  }

  StallCauses of(ResourceId queue) {
    for (const TaskId id : plan_.tasks.ids()) {
      if (plan_.tasks[id].resource != queue || !spans_[id]) continue;
      const auto before = predecessor_in_queue(*spans_[id]);
      if (before) follow(*spans_[id], before->end);
    }
    return causes_;
  }

 private:
  struct QueueBefore {
    TaskId task;
    bool of_step_before = false;
  };

  const std::optional<Span>& span_of(TaskRun run) const {
    static const std::optional<Span> none;
    if (run.step == step_) return spans_[run.task];
    return run.step == step_ - 1 ? before_[run.task] : none;
  }

  const std::optional<Span>& predecessor_in_queue(const Span& span) const {
    const QueueBefore& before = queue_before_[span.run.task];
    return span_of({span.run.step - (before.of_step_before ? 1 : 0), before.task});
  }

  /// Of all that had to come before, what ended last.
  std::optional<Span> latest_before(const Span& span) const {
    std::optional<Span> latest = predecessor_in_queue(span);
    const auto look = [&](TaskRun run) {
      const auto& other = span_of(run);
      if (other && (!latest || other->end > latest->end)) latest = other;
    };
    for (const TaskId id : plan_.tasks[span.run.task].after) look({span.run.step, id});
    for (const TaskId id : plan_.tasks[span.run.task].after_previous) look({span.run.step - 1, id});
    return latest;
  }

  /// The time from `idle_since` until `waiting` started.
  void follow(Span waiting, Micros idle_since) {
    Micros until = waiting.start;
    while (until > idle_since) {
      const std::optional<Span> latest = latest_before(waiting);
      if (!latest || latest->end <= idle_since) {
        causes_.other += until - idle_since;
        return;
      }
      const Micros end = std::min(latest->end, until);
      causes_.other += until - end;
      const Micros start = std::clamp(latest->start, idle_since, end);
      of_resource(plan_.tasks[latest->run.task].resource) += end - start;
      // Each turn goes to a task that comes before, so there is an end.
      until = start;
      waiting = *latest;
    }
  }

  Micros& of_resource(ResourceId id) {
    const Resource& resource = plan_.resources[id];
    if (resource.kind == ResourceKind::host) return causes_.host;
    if (resource.kind == ResourceKind::compute) return causes_.devices;
    const bool drive = plan_.places[resource.place].kind == PlaceKind::drive;
    return drive ? causes_.drives : causes_.copies;
  }

  const Plan& plan_;
  const int step_;
  IdVector<TaskId, std::optional<Span>> spans_, before_;  // of the step, and of the one before
  IdVector<TaskId, QueueBefore> queue_before_;
  StallCauses causes_;
};

}  // namespace

StallCauses stall_causes(const Plan& plan, const Timeline& timeline, ResourceId queue, int step) {
  return Walk(plan, timeline, step).of(queue);
}

}  // namespace ferry
