#include "exec/simulator.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/turns.h"
#include "exec/driver.h"
#include "plan/order.h"

namespace ferry {
namespace {

// The parts of a task: what passes while nothing is drawn, then what the pools may slow down.
struct Work {
  double lead = 0;   // microseconds
  double drawn = 0;  // microseconds at full speed
};

Work work_of(const Plan& plan, const Task& task) {
  if (task.refreshes) return {};
  if (task.kind != TaskKind::copy) return {0, task.micros.count};
  const Resource& link = plan.resources[task.resource];
  return {(link.latency + task.micros).count,
          from_seconds(static_cast<double>(task.bytes.count) / link.rate).count};
}

class Simulator final : public TaskRunner {
 public:
  /// `speeds` are of the plan, and nothing runs. Adds what ran to `timeline`, unless that is null.
  Simulator(const Plan& plan, SharedSpeeds& speeds, Timeline* timeline)
      : plan_(plan),
        timeline_(timeline),
        speeds_(speeds),
        lanes_(plan.resources.size()),
        turn_pools_(plan.resources.size()),
        turns_(plan.pools.size()) {
    for (const PoolId pool : plan.pools.ids()) {
      if (plan.pools[pool].in_turn) in_turn_.push_back(pool);
    }
    for (const ResourceId queue : plan.resources.ids()) {
      for (const Draw& draw : plan.resources[queue].draws) {
        if (plan.pools[draw.pool].in_turn) turn_pools_[queue] = draw.pool;
      }
    }
  }

  bool can_start(const Task& task) const override {
    const Lane& lane = lanes_[task.resource];
    return lane.event == kNone && !lane.waits;
  }
  bool takes_one_each() const override { return true; }
  void start(TaskRun run, const Task& task) override;
  TaskRun wait_any() override;
  void drain() override;

  Micros now() const { return {now_}; }

  /// Where a lane stands when `step` has ended.
  struct Standing {
    TaskId last;         // that it has started; none: no task at all
    int ahead = 0;       // so many steps behind `step` is that one
    double due = 0;      // from now on, until what runs ends or begins to draw; 0: nothing runs
    bool leads = false;  // what runs has yet to begin to draw
    bool waits = false;  // for its turn
  };
  IdVector<ResourceId, Standing> standing(int step) const;

 private:
  static constexpr std::size_t kNone = -1;

  // A resource and the task that it runs.
  struct Lane {
    TaskRun run;
    std::size_t event = kNone;  // in events_; none: it runs nothing
    double start = 0;
    double drawn_later = 0;  // of Work::drawn, while the lead passes
    double left = 0;         // of Work::drawn at `since`
    double since = 0;
    double speed = 0;    // 0: does not draw
    bool waits = false;  // for its turn: it is started, and does not run yet
  };

  // When a lane's task ends or begins to draw.
  struct Event {
    double at;
    ResourceId lane;
  };

  /// The pool on which the task has to wait for its turn; none: it runs at once.
  PoolId turns_of(const Task& task) const {
    return task.refreshes ? PoolId() : turn_pools_[task.resource];
  }
  void begin(ResourceId lane, const Work& work);
  void begin_turns();
  ResourceId next_lane() const;
  void remove_event(std::size_t event);
  void draw(ResourceId lane, double work);
  void set_speeds(std::span<const SharedSpeeds::Change> changes);

  const Plan& plan_;
  Timeline* const timeline_;
  SharedSpeeds& speeds_;
  IdVector<ResourceId, Lane> lanes_;
  std::vector<PoolId> in_turn_;
  IdVector<ResourceId, PoolId> turn_pools_;    // of each queue the one of those that it draws from
  IdVector<PoolId, Turns<ResourceId>> turns_;  // of those
  std::vector<Event> events_;                  // of the lanes that run something, in no order
  double now_ = 0;
};

void Simulator::start(TaskRun run, const Task& task) {
  Lane& lane = lanes_[task.resource];
  lane = {.run = run};
  if (const PoolId pool = turns_of(task); pool.valid()) {
    lane.waits = true;
    turns_[pool].arrive(task.resource);
  } else {
    begin(task.resource, work_of(plan_, task));
  }
}

void Simulator::begin(ResourceId beginning, const Work& work) {
  Lane& lane = lanes_[beginning];
  lane.event = events_.size();
  lane.start = lane.since = now_;
  events_.push_back({now_ + work.lead, beginning});
  if (!speeds_.shares(beginning) || work.drawn == 0) {
    events_.back().at = now_ + (work.lead + work.drawn);
  } else if (work.lead > 0) {
    lane.drawn_later = work.drawn;
  } else {
    draw(beginning, work.drawn);
  }
}

// Only when all that may start now has been started: a queue that goes on is among them.
void Simulator::begin_turns() {
  for (const PoolId pool : in_turn_) {
    const auto next = turns_[pool].begin();
    if (!next) continue;
    lanes_[*next].waits = false;
    begin(*next, work_of(plan_, plan_.tasks[lanes_[*next].run.task]));
  }
}

void Simulator::draw(ResourceId drawing, double work) {
  Lane& lane = lanes_[drawing];
  lane.left = work;
  lane.since = now_;
  lane.drawn_later = 0;
  set_speeds(speeds_.start(drawing));
}

// From now on; who keeps its speed keeps its end to the last bit.
void Simulator::set_speeds(std::span<const SharedSpeeds::Change> changes) {
  for (const auto& [changed, speed] : changes) {
    Lane& lane = lanes_[changed];
    lane.left = std::max(0.0, lane.left - (now_ - lane.since) * lane.speed);
    lane.since = now_;
    lane.speed = speed;
    events_[lane.event].at = now_ + lane.left / speed;
  }
}

// The lane whose event comes first; of several at one time that of the smaller run.
ResourceId Simulator::next_lane() const {
  FERRY_CHECK(!events_.empty(), "nothing is in flight");
  Event first = events_.front();
  for (const Event& event : events_) {
    if (event.at > first.at) continue;
    if (event.at < first.at || lanes_[event.lane].run < lanes_[first.lane].run) first = event;
  }
  return first.lane;
}

void Simulator::remove_event(std::size_t event) {
  lanes_[events_[event].lane].event = kNone;
  if (event + 1 < events_.size()) {
    events_[event] = events_.back();
    lanes_[events_[event].lane].event = event;
  }
  events_.pop_back();
}

IdVector<ResourceId, Simulator::Standing> Simulator::standing(int step) const {
  IdVector<ResourceId, Standing> found;
  for (const Lane& lane : lanes_) {
    Standing& stands = found.emplace_back();
    if (!lane.run.task.valid()) continue;
    stands = {.last = lane.run.task, .ahead = lane.run.step - step, .waits = lane.waits};
    if (lane.event == kNone) continue;
    stands.due = events_[lane.event].at - now_;
    stands.leads = lane.drawn_later > 0;
  }
  return found;
}

TaskRun Simulator::wait_any() {
  while (true) {
    begin_turns();
    const ResourceId next = next_lane();
    Lane& lane = lanes_[next];
    now_ = events_[lane.event].at;
    if (lane.drawn_later > 0) {
      draw(next, lane.drawn_later);
      continue;
    }
    remove_event(lane.event);
    if (const PoolId pool = turns_of(plan_.tasks[lane.run.task]); pool.valid()) turns_[pool].end();
    if (lane.speed > 0) {
      lane.speed = 0;
      set_speeds(speeds_.stop(next));
    }
    if (timeline_ != nullptr) timeline_->spans.push_back({lane.run, {lane.start}, {now_}});
    return lane.run;
  }
}

void Simulator::drain() {
  for (Lane& lane : lanes_) lane.waits = false;
  for (Turns<ResourceId>& turns : turns_) turns = {};
  while (!events_.empty()) remove_event(events_.size() - 1);
}

// Notes when each step ends, and which is the first that leaves behind what the one before it did:
// so will all that follow, since a queue's place and what is left of its task say how it goes on.
class StepClock final : public Observer {
 public:
  explicit StepClock(const Simulator& simulator) : simulator_(simulator) {}

  void step_finished(int step) override {
    ends_.push_back(simulator_.now());
    IdVector<ResourceId, Simulator::Standing> standing = simulator_.standing(step);
    const bool repeats = std::ranges::equal(standing, before_, [&](const auto& a, const auto& b) {
      return a.last == b.last && a.ahead == b.ahead && a.leads == b.leads && a.waits == b.waits &&
             std::abs(a.due - b.due) <= kRounding * simulator_.now().count;
    });
    if (repeats && steady_ == 0) steady_ = ends_.size();
    before_ = std::move(standing);
  }

  bool is_steady() const { return steady_ > 0; }

  /// Of the steady state, or the last.
  Micros step() const {
    const std::size_t end = is_steady() ? steady_ : ends_.size();
    return end == 1 ? ends_.front() : ends_[end - 1] - ends_[end - 2];
  }
  Micros first_end() const { return ends_.front(); }

 private:
  static constexpr double kRounding = 1e-12;

  const Simulator& simulator_;
  std::vector<Micros> ends_;
  std::size_t steady_ = 0;  // so many steps until it is seen; 0: it is not
  IdVector<ResourceId, Simulator::Standing> before_;
};

// Of sums of times their last digits are rounding, which is not to decide between two plans.
Micros without_rounding(Micros time) {
  constexpr int kBits = 40;
  int exponent = 0;
  const double part = std::frexp(time.count, &exponent);
  return {std::ldexp(std::round(std::ldexp(part, kBits)), exponent - kBits)};
}

struct SimulatedSteps {
  Micros first_step;
  Micros step;  // of the steady state, or the last
  bool is_steady = false;
};

SimulatedSteps run_steps(const Plan& plan, int steps, SharedSpeeds& speeds, Timeline* timeline) {
  FERRY_CHECK(steps >= 1, "a simulation needs at least one step");
  Simulator simulator(plan, speeds, timeline);
  StepClock clock(simulator);
  drive(plan, {.first = 0, .count = steps, .begins_next = steps > 1}, simulator, clock);
  return {clock.first_end(), without_rounding(clock.step()), clock.is_steady()};
}

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
  Simulation simulation;
  simulation.timeline.spans.reserve(plan.tasks.size() * steps);
  SharedSpeeds speeds(plan);
  const SimulatedSteps simulated = run_steps(plan, steps, speeds, &simulation.timeline);
  simulation.first_step = simulated.first_step;
  const Busiest busiest = find_busiest(plan);
  simulation.busiest = busiest.time;
  simulation.busiest_name = busiest.name;
  simulation.step = std::max(simulated.step, simulation.busiest);
  std::erase_if(simulation.timeline.spans,
                [&](const Span& span) { return span.run.step >= steps; });
  simulation.use = last_step_use(plan, simulation.timeline, steps - 1, simulation.step);
  simulation.critical_path = critical_path(plan);
  for (const PlaceId p : plan.places.ids()) simulation.peak.push_back(peak_bytes(plan, p));
  return simulation;
}

Micros StepSimulator::step_of(const Plan& plan) const {
  auto speeds = speeds_.take([&](const SharedSpeeds& spare) { return spare.are_of(plan); });
  if (!speeds) speeds = std::make_unique<SharedSpeeds>(plan);
  SimulatedSteps simulated;
  for (int steps = 2; steps <= kSimulatedSteps && !simulated.is_steady; ++steps) {
    speeds->stop_all();
    simulated = run_steps(plan, steps, *speeds, nullptr);
  }
  speeds_.give_back(std::move(speeds));
  return std::max(simulated.step, find_busiest(plan).time);
}

}  // namespace ferry
