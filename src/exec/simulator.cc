#include "exec/simulator.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "exec/driver.h"
#include "exec/shared_speeds.h"
#include "plan/order.h"

namespace ferry {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// The parts of a task: what passes while nothing is drawn, then what the pools may slow down.
struct Work {
  double lead = 0;   // microseconds
  double drawn = 0;  // microseconds at full speed
};

Work work_of(const Plan& plan, const Task& task) {
  if (task.kind != TaskKind::copy) return {0, task.micros.count};
  const Resource& link = plan.resources[task.resource];
  return {(link.latency + task.micros).count,
          from_seconds(static_cast<double>(task.bytes.count) / link.rate).count};
}

class Simulator final : public TaskRunner {
 public:
  explicit Simulator(const Plan& plan)
      : plan_(plan),
        speeds_(plan),
        lanes_(plan.resources.size()),
        next_event_(plan.resources.size(), kNever) {}

  bool can_start(const Task& task) const override { return next_event_[task.resource] == kNever; }
  void start(TaskRun run, const Task& task) override;
  TaskRun wait_any() override;
  void drain() override { std::fill(next_event_.begin(), next_event_.end(), kNever); }

  Micros now() const { return {now_}; }
  Timeline& timeline() { return timeline_; }

 private:
  // A resource and the task that it runs.
  struct Lane {
    TaskRun run;
    double start = 0;
    double drawn_later = 0;  // of Work::drawn, while the lead passes
    double left = 0;         // of Work::drawn at `since`
    double since = 0;
    double speed = 0;  // 0: does not draw
  };

  ResourceId next_lane() const;
  void draw(ResourceId lane, double work);
  void adjust_speeds(SharedSpeeds::GroupId group);

  const Plan& plan_;
  SharedSpeeds speeds_;
  IdVector<ResourceId, Lane> lanes_;
  IdVector<ResourceId, double> next_event_;  // when its task ends or begins to draw; or kNever
  double now_ = 0;
  Timeline timeline_;
};

void Simulator::start(TaskRun run, const Task& task) {
  const ResourceId lane = task.resource;
  const Work work = work_of(plan_, task);
  lanes_[lane] = {run, now_, 0, 0, now_, 0};
  if (!speeds_.group_of(lane).valid() || work.drawn == 0) {
    next_event_[lane] = now_ + (work.lead + work.drawn);
  } else if (work.lead > 0) {
    lanes_[lane].drawn_later = work.drawn;
    next_event_[lane] = now_ + work.lead;
  } else {
    draw(lane, work.drawn);
  }
}

void Simulator::draw(ResourceId lane, double work) {
  lanes_[lane].left = work;
  lanes_[lane].since = now_;
  lanes_[lane].speed = 1;
  lanes_[lane].drawn_later = 0;
  next_event_[lane] = now_ + work;
  speeds_.start(lane);
  adjust_speeds(speeds_.group_of(lane));
}

// Sets the group's speeds from now on; who keeps its speed keeps its end to the last bit.
void Simulator::adjust_speeds(SharedSpeeds::GroupId group) {
  const auto members = speeds_.members(group);
  const auto speeds = speeds_.speeds(group);
  for (std::size_t m = 0; m < members.size(); ++m) {
    Lane& lane = lanes_[members[m]];
    if (lane.speed == speeds[m]) continue;
    lane.left = std::max(0.0, lane.left - (now_ - lane.since) * lane.speed);
    lane.since = now_;
    lane.speed = speeds[m];
    next_event_[members[m]] = now_ + lane.left / lane.speed;
  }
}

// The lane whose event comes first; of several at one time that of the smaller run.
ResourceId Simulator::next_lane() const {
  ResourceId first(0);
  for (const ResourceId lane : lanes_.ids()) {
    if (next_event_[lane] > next_event_[first]) continue;
    if (next_event_[lane] < next_event_[first] || lanes_[lane].run < lanes_[first].run) {
      first = lane;
    }
  }
  return first;
}

TaskRun Simulator::wait_any() {
  while (true) {
    const ResourceId next = next_lane();
    Lane& lane = lanes_[next];
    FERRY_CHECK(next_event_[next] != kNever, "nothing is in flight");
    now_ = next_event_[next];
    if (lane.drawn_later > 0) {
      draw(next, lane.drawn_later);
      continue;
    }
    next_event_[next] = kNever;
    if (lane.speed > 0) {
      lane.speed = 0;
      speeds_.stop(next);
      adjust_speeds(speeds_.group_of(next));
    }
    timeline_.spans.push_back({lane.run, {lane.start}, {now_}});
    return lane.run;
  }
}

// Notes when each step ends.
class StepClock final : public Observer {
 public:
  explicit StepClock(const Simulator& simulator) : simulator_(simulator) {}

  void step_finished(int /*step*/) override { ends_.push_back(simulator_.now()); }
  const std::vector<Micros>& ends() const { return ends_; }

 private:
  const Simulator& simulator_;
  std::vector<Micros> ends_;
};

Micros critical_path(const Plan& plan) {
  IdVector<TaskId, Micros> end(plan.tasks.size());
  IdVector<ResourceId, Micros> queue_end(plan.resources.size());
  Micros longest;
  for (const TaskId id : order_step(plan).tasks) {
    const Task& task = plan.tasks[id];
    Micros& queue = queue_end[task.resource];
    Micros start = queue;
    for (const TaskId earlier : task.after) start = std::max(start, end[earlier]);
    end[id] = queue = start + full_speed_time(plan, task);
    longest = std::max(longest, queue);
  }
  return longest;
}

// What the last step's tasks took of each resource, relative to the time of a step.
IdVector<ResourceId, ResourceUse> last_step_use(const Plan& plan, const Timeline& timeline,
                                                int last, Micros step) {
  Timeline of_last;
  for (const Span& span : timeline.spans) {
    if (span.run.step == last) of_last.spans.push_back(span);
  }
  IdVector<ResourceId, ResourceUse> use = resource_use(plan, of_last);
  for (ResourceUse& one : use) {
    one.utilisation = step.count > 0 ? one.busy.count / step.count : 0.0;
  }
  return use;
}

}  // namespace

Busiest find_busiest(const Plan& plan) {
  Busiest busiest;
  IdVector<ResourceId, double> drawn(plan.resources.size());  // microseconds at full speed
  IdVector<ResourceId, double> busy(plan.resources.size());
  for (const Task& task : plan.tasks) {
    const Work work = work_of(plan, task);
    drawn[task.resource] += work.drawn;
    busy[task.resource] += work.lead + work.drawn;
  }
  IdVector<PoolId, double> pools(plan.pools.size());
  for (const ResourceId r : plan.resources.ids()) {
    for (const Draw& draw : plan.resources[r].draws) {
      pools[draw.pool] += drawn[r] * (draw.rate / plan.pools[draw.pool].capacity);
    }
  }
  const auto consider = [&](double micros, const std::string& name) {
    if (micros < busiest.time.count) return;
    if (micros == busiest.time.count && !busiest.name.empty()) return;
    busiest = {{micros}, name};
  };
  for (const ResourceId r : busy.ids()) consider(busy[r], plan.resources[r].name);
  for (const PoolId p : pools.ids()) consider(pools[p], plan.pools[p].name);
  return busiest;
}

Simulation simulate(const Plan& plan, int steps) {
  FERRY_CHECK(steps >= 1, "a simulation needs at least one step");
  Simulator simulator(plan);
  simulator.timeline().spans.reserve(plan.tasks.size() * steps);
  StepClock clock(simulator);
  drive(plan, {.first = 0, .count = steps, .begins_next = steps > 1}, simulator, clock);

  Simulation simulation;
  const std::vector<Micros>& ends = clock.ends();
  simulation.first_step = ends.front();
  const Busiest busiest = find_busiest(plan);
  simulation.busiest = busiest.time;
  simulation.busiest_name = busiest.name;
  const Micros last = steps == 1 ? ends.front() : ends.back() - ends[ends.size() - 2];
  simulation.step = std::max(last, simulation.busiest);
  simulation.timeline = std::move(simulator.timeline());
  std::erase_if(simulation.timeline.spans,
                [&](const Span& span) { return span.run.step >= steps; });
  simulation.use = last_step_use(plan, simulation.timeline, steps - 1, simulation.step);
  simulation.critical_path = critical_path(plan);
  for (const PlaceId p : plan.places.ids()) simulation.peak.push_back(peak_bytes(plan, p));
  return simulation;
}

}  // namespace ferry
