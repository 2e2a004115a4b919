#include "report/html.h"

#include <cmath>
#include <span>

#include "base/check.h"
#include "plan/at_home.h"
#include "plan/order.h"
#include "plan/words.h"
#include "report/json_text.h"
#include "report/occupancy.h"
#include "report/packed_numbers.h"
#include "report/pages.h"
#include "report/report.h"

namespace ferry {
namespace {

constexpr std::size_t kCurvePoints = 400;  // of the bandwidth curve: one per pixel or two

std::int64_t nanoseconds(Micros time) { return std::llround(time.count * 1000); }

void write_header(const Plan& plan, const Simulation& simulation, JsonText& json) {
  json.string("strategy", plan.strategy);
  json.string("mode", to_string(plan.mode));
  json.integer("micro_batches", plan.micro_batches);
  json.integer("micro_batch_size", plan.micro_batch_size);
  json.integer("sequence", plan.sequence);
  json.number("step_seconds", simulation.step.seconds());
  json.number("first_step_seconds", simulation.first_step.seconds());
  json.number("critical_path_seconds", simulation.critical_path.seconds());
  json.string("busiest", simulation.busiest_name);
  json.number("busiest_seconds", simulation.busiest.seconds());
}

void write_resources(const Plan& plan, const Simulation& simulation, JsonText& json) {
  const std::vector<Bubble> idle = bubbles(plan, simulation);
  json.number("bubble", mean_bubble(idle));
  json.array("resources");
  std::size_t next = 0;
  for (const ResourceId r : plan.resources.ids()) {
    const Resource& resource = plan.resources[r];
    const ResourceUse& use = simulation.use[r];
    json.object();
    json.string("name", resource.name);
    json.string("kind", to_string(resource.kind));
    json.integer("place", resource.place.number());
    json.number("busy_seconds", use.busy.seconds());
    json.number("utilisation", use.utilisation);
    json.integer("bytes", use.bytes.count);
    if (next < idle.size() && idle[next].resource == r) {
      json.number("bubble", idle[next++].of_step);
    }
    json.end();
  }
  json.end();
}

void write_pools(const Plan& plan, const Simulation& simulation, JsonText& json) {
  const IdVector<PoolId, PoolUse> uses = pool_use(plan, simulation);
  json.array("pools");
  for (const PoolId p : uses.ids()) {
    json.object();
    json.string("name", plan.pools[p].name);
    json.number("utilisation", uses[p].utilisation);
    json.integer("bytes", uses[p].bytes.count);
    json.end();
  }
  json.end();
}

void write_bandwidths(const Plan& plan, const Simulation& simulation, JsonText& json) {
  const BandwidthCdf cdf = bandwidth_cdf(plan, simulation);
  json.integer("bytes_moved", cdf.total().count);
  json.array("bandwidth_cdf");
  for (const BandwidthCdf::Point& point : thinned(cdf, kCurvePoints)) {
    json.array();
    json.number(point.bytes_per_second);
    json.number(static_cast<double>(point.bytes.count) / static_cast<double>(cdf.total().count));
    json.end();
  }
  json.end();
}

// A staircase: for each level the time since the one before and the change.
std::string packed(std::span<const Level> levels) {
  PackedNumbers numbers;
  std::int64_t time = 0;
  Bytes bytes;
  for (const Level& level : levels) {
    const std::int64_t at = nanoseconds(level.at);
    numbers.add(at - time);
    numbers.add((level.bytes - bytes).count);
    time = at;
    bytes = level.bytes;
  }
  return numbers.take();
}

// What rests lies at the bottom of the page's rows: names come in the order of drawing.
void write_levels(const PlaceLevels& levels, JsonText& json) {
  json.object("levels");
  const auto write = [&](const std::string& prefix, const auto& by_kind) {
    for (std::size_t kind = 0; kind < PlaceLevels::kKinds; ++kind) {
      if (by_kind[kind].empty()) continue;
      const std::string name = prefix + std::string(to_string(static_cast<ValueKind>(kind)));
      json.string(name, packed(by_kind[kind]));
    }
  };
  write("home ", levels.at_home);
  write("", levels.passing);
  if (!levels.workspace.empty()) json.string("workspace", packed(levels.workspace));
  json.end();
}

void write_places(const Plan& plan, const Simulation& simulation, JsonText& json) {
  const IdVector<PlaceId, PlaceLevels> levels = bytes_over_time(plan, simulation.timeline);
  const IdVector<PlaceId, Bytes> rests = bytes_at_home(plan);
  const std::vector<DriveUse> drives = drive_use(plan);
  std::size_t next = 0;
  json.array("places");
  for (const PlaceId p : plan.places.ids()) {
    json.line();
    json.object();
    json.string("name", plan.places[p].name);
    json.string("kind", to_string(plan.places[p].kind));
    json.integer("budget", plan.places[p].budget.count);
    json.integer("peak", simulation.peak[p].count);
    json.integer("at_home", rests[p].count);
    if (next < drives.size() && drives[next].place == p) {
      json.integer("read", drives[next].read.count);
      json.integer("written", drives[next++].written.count);
    }
    write_levels(levels[p], json);
    json.end();
  }
  json.end();
}

// Per task: kind, resource, bytes, how many `after` and how far back each is, the same of
// `after_previous`.
void write_tasks(const Plan& plan, JsonText& json) {
  std::string names;
  PackedNumbers numbers;
  for (const TaskId id : plan.tasks.ids()) {
    const Task& task = plan.tasks[id];
    if (id > TaskId(0)) names += '\n';
    names += task.name;
    numbers.add(static_cast<std::int64_t>(task.kind));
    numbers.add(task.resource.number());
    numbers.add(task.bytes.count);
    for (const FewIds<TaskId>* earlier : {&task.after, &task.after_previous}) {
      numbers.add(static_cast<std::int64_t>(earlier->size()));
      for (const TaskId other : *earlier) numbers.add(id.number() - other.number());
    }
  }
  json.array("kinds");
  for (const std::string_view kind : kTaskWords) json.string(kind);
  json.end();
  json.line();
  json.string("names", names);
  json.line();
  json.string("tasks", numbers.take());
}

// Per step and task, in the plan's order: the pause since the queue's task before ended, and the
// duration.
void write_spans(const Plan& plan, const Timeline& timeline, JsonText& json) {
  const std::size_t tasks = plan.tasks.size();
  const std::size_t steps = tasks > 0 ? timeline.spans.size() / tasks : 0;
  FERRY_CHECK(timeline.spans.size() == steps * tasks, "a simulation runs whole steps");
  const RunIds runs(plan);
  IdVector<RunId, const Span*> ordered(timeline.spans.size());
  for (const Span& span : timeline.spans) {
    ordered[runs.of(span.run.step, span.run.task)] = &span;
  }
  PackedNumbers numbers;
  IdVector<ResourceId, std::int64_t> queue_end(plan.resources.size());
  for (const RunId run : ordered.ids()) {
    std::int64_t& last_end = queue_end[plan.tasks[runs.task(run)].resource];
    const std::int64_t start = nanoseconds(ordered[run]->start);
    const std::int64_t end = nanoseconds(ordered[run]->end);
    numbers.add(start - last_end);
    numbers.add(end - start);
    last_end = end;
  }
  json.integer("steps", static_cast<std::int64_t>(steps));
  json.line();
  json.string("spans", numbers.take());
}

}  // namespace

std::string to_html(const Plan& plan, const Simulation& simulation) {
  JsonText json;
  json.object();
  write_header(plan, simulation, json);
  write_resources(plan, simulation, json);
  write_pools(plan, simulation, json);
  write_bandwidths(plan, simulation, json);
  write_places(plan, simulation, json);
  write_tasks(plan, json);
  write_spans(plan, simulation.timeline, json);
  json.end();
  std::string page(kTimelinePage.before_data);
  page += json.take();
  page += kTimelinePage.after_data;
  return page;
}

}  // namespace ferry
