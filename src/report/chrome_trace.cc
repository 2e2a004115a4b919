#include "report/chrome_trace.h"

#include <algorithm>
#include <map>

#include "report/json_text.h"

namespace ferry {
namespace {

void write_names(const Plan& plan, JsonText& trace) {
  const auto metadata = [&](std::string_view what, int process, int track, std::string_view name) {
    trace.line();
    trace.object();
    trace.string("name", what);
    trace.string("ph", "M");
    trace.integer("pid", process);
    trace.integer("tid", track);
    trace.object("args");
    trace.string("name", name);
    trace.end();
    trace.end();
  };
  for (const PlaceId p : plan.places.ids()) {
    metadata("process_name", p.number(), 0, plan.places[p].name);
  }
  for (const ResourceId r : plan.resources.ids()) {
    const Resource& resource = plan.resources[r];
    metadata("thread_name", resource.place.number(), r.number(), resource.name);
  }
}

// The fields that say when and on which track an event is.
void write_position(const Plan& plan, const Span& span, Micros at, JsonText& trace) {
  const ResourceId resource = plan.tasks[span.run.task].resource;
  trace.number("ts", at.count);
  trace.integer("pid", plan.resources[resource].place.number());
  trace.integer("tid", resource.number());
}

void write_span(const Plan& plan, const Span& span, JsonText& trace) {
  const Task& task = plan.tasks[span.run.task];
  trace.line();
  trace.object();
  trace.string("name", task.name);
  trace.string("ph", "X");
  write_position(plan, span, span.start, trace);
  trace.number("dur", std::max(0.0, (span.end - span.start).count));
  trace.object("args");
  trace.integer("step", span.run.step);
  if (task.bytes > Bytes{}) trace.integer("bytes", task.bytes.count);
  trace.end();
  trace.end();
}

void write_flow(const Plan& plan, const Span& earlier, const Span& later, std::int64_t id,
                JsonText& trace) {
  const auto write_half = [&](std::string_view phase, const Span& span, Micros at) {
    trace.line();
    trace.object();
    trace.string("name", "after");
    trace.string("cat", "after");
    trace.string("ph", phase);
    trace.integer("id", id);
    write_position(plan, span, at, trace);
    if (phase == "f") trace.string("bp", "e");
    trace.end();
  };
  write_half("s", earlier, earlier.end);
  write_half("f", later, std::max(later.start, earlier.end));
}

}  // namespace

std::string to_chrome_trace(const Plan& plan, const Timeline& timeline) {
  JsonText trace;
  trace.object();
  trace.array("traceEvents");
  write_names(plan, trace);
  std::map<int, IdVector<TaskId, const Span*>> steps;  // step -> by task, null where it did not run
  for (const Span& span : timeline.spans) {
    auto& spans = steps[span.run.step];
    spans.resize(plan.tasks.size());
    spans[span.run.task] = &span;
    write_span(plan, span, trace);
  }
  std::int64_t flow = 0;
  for (const auto& [step, spans] : steps) {
    for (const TaskId id : spans.ids()) {
      if (spans[id] == nullptr) continue;
      for (const TaskId earlier : plan.tasks[id].after) {
        const Span* const first = spans[earlier];
        if (first != nullptr) write_flow(plan, *first, *spans[id], ++flow, trace);
      }
    }
  }
  trace.end();
  trace.string("displayTimeUnit", "ms");
  trace.end();
  return trace.take() + "\n";
}

}  // namespace ferry
