#include "train/step_runner.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/steady_time.h"
#include "device/simulation.h"
#include "train/driving_thread.h"
#include "train/operator_count.h"

namespace ferry {
namespace {

// Enough enqueued work to keep a queue busy while the driver's thread is elsewhere.
constexpr int kDeviceDepth = 64;
constexpr int kHostDepth = 4;

// A task's operators are counted in its first run and from time to time: packed rows have more and
// fewer documents. Counting them all would cost a thread that is nearly a bottleneck in small
// models.
constexpr int kStepsBetweenCounts = 16;

// How long wait_any() sleeps between two looks at the devices' events: far below a task's length.
constexpr Micros kPatience{200};

int parity(int step) { return step % 2; }

}  // namespace

StepRunner::StepRunner(Setup setup)
    : plan_(setup.plan),
      places_(setup.places),
      feed_(std::move(setup.feed)),
      most_launches_(setup.most_launches),
      binding_(plan_, places_),
      block_math_(setup.model, plan_, binding_),
      host_math_(setup.model, plan_, binding_, setup.clip, setup.update_threads),
      last_runs_(plan_.tasks.size(), -1),
      launch_threads_(completions_, [this] { return now(); }) {
  for (auto& clocks : drive_clocks_) clocks.resize(plan_.tasks.size());
  for (auto& events : events_) {
    for (const Task& task : plan_.tasks) {
      auto& event = events.emplace_back();
      const PlaceId place = plan_.resources[task.resource].place;
      if (on_device(task)) event.emplace(*places_[place].device, DeviceEvent::Timing::kOn);
    }
  }
  for (auto& ends : ends_) ends.resize(plan_.tasks.size());
  for (const Task& task : plan_.tasks) operators_.push_back(task.kind == TaskKind::copy ? 1 : 0);
  set_clocks(setup.clock_life);
  for (const Resource& resource : plan_.resources) {
    Queue& queue = queues_.emplace_back();
    switch (plan_.places[resource.place].kind) {
      case PlaceKind::device:
        queue.stream = places_[resource.place].device->stream(resource.name);
        queue.clock = &clocks_.at(resource.place);
        queue.thread = launching_thread(*places_[resource.place].device);
        break;
      case PlaceKind::host:
        queue.host = std::make_unique<HostQueue>(completions_, [this] { return now(); });
        break;
      case PlaceKind::drive:
        queue.drive = std::make_unique<DriveCopies>(resource.name, binding_, completions_,
                                                    [this] { return now(); });
        break;
    }
  }
  open_straight_ways();
}

StepRunner::~StepRunner() = default;

/// verify() has seen that they are on queues of the senders.
void StepRunner::open_straight_ways() {
  for (const Task& task : plan_.tasks) {
    Queue& queue = queues_[task.resource];
    if (queue.straight || !goes_between_devices(plan_, task)) continue;
    Device& from = *places_[plan_.instances[task.reads.front()].place].device;
    Device& to = *places_[plan_.instances[task.writes.front()].place].device;
    queue.straight.emplace(from, to, plan_.resources[task.resource].name);
  }
}

void StepRunner::set_clocks(Micros life) {
  for (const PlaceId id : places_.ids()) {
    auto& device = places_[id].device;
    if (!device) continue;
    clocks_.try_emplace(
        id, *device, [this] { return now(); }, life);
  }
}

/// Several logical devices may be one physical one.
int StepRunner::launching_thread(const Device& device) {
  const auto known = std::ranges::find(launching_, device.torch_device());
  if (known != launching_.end()) return static_cast<int>(known - launching_.begin());
  launching_.push_back(device.torch_device());
  return launch_threads_.add([device] {
    if (device.simulated()) give_way();
    device.attach_thread();
    simdev_host_thread("launches");
  });
}

int StepRunner::clock_renewals() const {
  int renewals = 0;
  for (const auto& [id, clock] : clocks_) renewals += clock.renewals();
  return renewals;
}

bool StepRunner::gives_way() const {
  for (const PlaceId id : places_.ids()) {
    const auto& device = places_[id].device;
    if (device && device->simulated()) return true;
  }
  return false;
}

template <typename Work>
auto StepRunner::named(const Task& task, const Work& work) const {
  const auto failed = [&](const std::string& how) {
    return ResourceError("task " + task.name + " on " + plan_.resources[task.resource].name + ": " +
                         how);
  };
  try {
    return work();
  } catch (const c10::Error& error) {
    throw failed(error.what_without_backtrace());
  } catch (const ResourceError& error) {
    throw failed(error.what());
  }
}

PlaceKind StepRunner::place_of(const Task& task) const {
  return plan_.places[plan_.resources[task.resource].place].kind;
}

bool StepRunner::can_start(const Task& task) const {
  const Queue& queue = queues_[task.resource];
  if (queue.drive) return queue.drive->can_start(task);
  // Any task may be as large as the largest, and takes all of the room until it is counted. One
  // that is too large for all of the room goes alone.
  if (queue.stream && !queue.in_flight.empty() &&
      queue.launches + queue.most_launches > most_launches_) {
    return false;
  }
  return queue.depth < (queue.stream ? kDeviceDepth : kHostDepth);
}

bool StepRunner::orders(const Task& earlier, const Task& later) const {
  return on_device(earlier) && on_device(later);
}

void StepRunner::start(TaskRun run, const Task& task) {
  prepare(run.step, task);
  if (run.step < first_step_) first_step_ = run.step;  // before anything of it is launched
  Queue& queue = queues_[task.resource];
  named(task, [&] {
    switch (place_of(task)) {
      case PlaceKind::device:
        return start_on_device(run, task, queue);
      case PlaceKind::host:
        return start_on_host(run, task, queue);
      case PlaceKind::drive:
        return start_on_drive(run, task, queue);
    }
  });
  ++queue.depth;  // only now: a task that could not be started is not in flight
}

void StepRunner::for_each_dependency(TaskRun run, const Task& task,
                                     const std::function<void(TaskRun)>& visit) const {
  for (const TaskId earlier : task.after) visit({run.step, earlier});
  if (run.step == first_step_) return;  // no step came before it
  for (const TaskId earlier : task.after_previous) visit({run.step - 1, earlier});
}

void StepRunner::start_on_device(TaskRun run, const Task& task, Queue& queue) {
  std::vector<TaskRun> after;  // those whose events its stream waits for
  for_each_dependency(run, task, [&](TaskRun earlier) {
    const Task& other = plan_.tasks[earlier.task];
    if (other.resource != task.resource && on_device(other)) after.push_back(earlier);
  });
  const long known = operators_[run.task];
  Launch& launch = queue.in_flight.emplace_back();
  launch.run = run;
  launch.counts =
      task.kind != TaskKind::copy && (known == 0 || run.step % kStepsBetweenCounts == 0);
  launch.operators = known > 0 ? known : most_launches_;
  try {
    launch_threads_.push(queue.thread, run, std::move(after),
                         [this, &launch, &task, seen = simdev_host_clock()] {
                           named(task, [&] { carry_out(launch, task, seen); });
                         });
  } catch (...) {
    queue.in_flight.pop_back();
    throw;
  }
  queue.launches += launch.operators;
}

/// On the thread that launches for the task's device. `seen`: what the driver's had seen when it
/// started the task, for the hazard detector.
void StepRunner::carry_out(Launch& launch, const Task& task, const HazardClock& seen) {
  const TaskRun run = launch.run;
  const c10::Stream& stream = *queues_[task.resource].stream;
  const c10::StreamGuard current(stream);
  last_runs_[run.task] = run.step;
  simdev_set_label(task.name);
  simdev_host_join(seen);
  for (const InstanceId id : task.writes) binding_.name_slot(id);
  for_each_dependency(run, task, [&](TaskRun earlier) {
    const Task& other = plan_.tasks[earlier.task];
    if (other.resource != task.resource && on_device(other)) event(earlier).block(stream);
    // The driver has seen it end; only the hazard detector has to be told.
    if (on_drive(other)) simdev_stream_join(stream, drive_clock(earlier));
  });
  places_[plan_.resources[task.resource].place].on_account([&] { enqueue(launch, task); });
  event(run).record(stream);
}

void StepRunner::enqueue(Launch& launch, const Task& task) {
  std::optional<OperatorCount> operators;
  if (launch.counts) operators.emplace();
  if (task.kind == TaskKind::copy) {
    if (!is_refreshed(launch.run, task)) copy(task);
  } else {
    block_math_.enqueue(launch.run.task, *numbers_[parity(launch.run.step)]);
  }
  if (operators) launch.counted = std::max(1L, operators->count());
}

/// What the copy would write is there: the step before has copied it as soon as it was updated; its
/// norm, which the driver has seen where the plan clips, took nothing back, and nobody was here
/// since.
bool StepRunner::is_refreshed(TaskRun run, const Task& task) const {
  if (!task.refreshes || run.step == first_step_ || run.step == disturbed_) return false;
  return !sum_waits(plan_, task.block) || result(run.step - 1).scale == 1.0F;
}

void StepRunner::copy(const Task& task) {
  const at::Tensor& from = binding_.bytes(task.reads.front());
  const at::Tensor& to = binding_.bytes(task.writes.front());
  if (const auto& straight = queues_[task.resource].straight) return straight->copy(from, to);
  to.copy_(from, /*non_blocking=*/true);
}

// These events are done: the driver has seen their tasks finish. Waiting makes what the device
// wrote visible to this thread by the rules of its own API, and to the hazard detector.
void StepRunner::wait_for_device_tasks(TaskRun run, const Task& task) {
  for_each_dependency(run, task, [&](TaskRun earlier) {
    if (on_device(plan_.tasks[earlier.task])) event(earlier).wait();
  });
}

void StepRunner::start_on_host(TaskRun run, const Task& task, Queue& queue) {
  wait_for_device_tasks(run, task);
  for_each_dependency(run, task, [&](TaskRun earlier) {
    if (on_drive(plan_.tasks[earlier.task])) simdev_host_join(drive_clock(earlier));
  });
  queue.host->push(run, [this, run, &task] { named(task, [&] { run_host_task(run, task); }); });
}

void StepRunner::start_on_drive(TaskRun run, const Task& task, Queue& queue) {
  last_runs_[run.task] = run.step;  // a transfer that fails may have moved a part
  wait_for_device_tasks(run, task);
  for_each_dependency(run, task, [&](TaskRun earlier) {
    if (on_drive(plan_.tasks[earlier.task])) queue.drive->wait_for(drive_clock(earlier));
  });
  queue.drive->start(run, task);
  drive_clock(run) = queue.drive->clock();
}

void StepRunner::run_host_task(TaskRun run, const Task& task) {
  last_runs_[run.task] = run.step;
  const StepNumbers& step = *numbers_[parity(run.step)];
  switch (task.kind) {
    case TaskKind::load:
      return host_math_.load(run.task, step);
    case TaskKind::clip:
      results_[parity(run.step)] = host_math_.clip(run.task, step);
      return;
    case TaskKind::update:
      return host_math_.update(run.task, step);
    case TaskKind::redo:
      return host_math_.redo(run.task, step);
    case TaskKind::forward:
    case TaskKind::backward:
    case TaskKind::copy:
    case TaskKind::work:
      FERRY_UNREACHABLE(task.name + " is no host task");
  }
}

void StepRunner::take_back(int step) {
  IdVector<BlockId, TaskId> redos(plan_.blocks.size());
  for (const TaskId id : plan_.tasks.ids()) {
    if (plan_.tasks[id].kind == TaskKind::redo) redos[plan_.tasks[id].block] = id;
  }
  for (const TaskId id : plan_.tasks.ids()) {
    if (plan_.tasks[id].kind != TaskKind::update || last_runs_[id] != step) continue;
    const TaskId redo = redos[plan_.tasks[id].block];
    if (!redo.valid() || last_runs_[redo] == step) continue;
    if (host_math_.take_back(id, step)) last_runs_[id] = step - 1;
  }
}

TaskRun StepRunner::wait_any() {
  for (;;) {
    if (const auto run = take_device_completion()) return *run;
    if (const auto run = take_drive_completion()) return *run;
    auto completion = completions_.take(kPatience);
    if (!completion) continue;
    Queue& queue = queue_of(completion->run);
    if (queue.host && !completion->error) {
      return finish(completion->run, completion->start, completion->end);
    }
    note(queue, *completion);
    if (completion->error && !queue.drive) std::rethrow_exception(completion->error);
  }
}

std::optional<TaskRun> StepRunner::take_drive_completion() {
  for (const ResourceId r : queues_.ids()) {
    Queue& queue = queues_[r];
    if (!queue.drive) continue;
    const auto completion = queue.drive->take();
    if (!completion) continue;
    const TaskRun run = completion->run;
    if (completion->error) {
      --queue.depth;
      named(plan_.tasks[run.task], [&] { std::rethrow_exception(completion->error); });
    }
    const Micros end = std::max(completion->end, queue.last_end);
    return finish(run, std::max(completion->start, queue.last_end), end);
  }
  return std::nullopt;
}

std::optional<TaskRun> StepRunner::take_device_completion() {
  for (Queue& queue : queues_) {
    // An event that is not recorded yet would count as done.
    if (queue.in_flight.empty() || !queue.in_flight.front().begun) continue;
    const Task& task = plan_.tasks[queue.in_flight.front().run.task];
    if (const auto run = named(task, [&] { return take_if_done(queue); })) return run;
  }
  return std::nullopt;
}

/// The queue's oldest launch, once its event is done.
std::optional<TaskRun> StepRunner::take_if_done(Queue& queue) {
  const Launch& oldest = queue.in_flight.front();
  const TaskRun run = oldest.run;
  if (!event(run).done()) return std::nullopt;
  Micros start = std::max(*oldest.begun, queue.last_end);
  for_each_dependency(run, plan_.tasks[run.task],
                      [&](TaskRun earlier) { start = std::max(start, end_of(earlier)); });
  // A clock that was renewed meanwhile may tell microseconds less.
  const Micros end = std::max(end_on_device(run), queue.last_end);
  queue.launches -= oldest.operators;
  queue.in_flight.pop_front();
  return finish(run, std::min(start, end), end);
}

/// The end of a finished task. Its device may tell before the driver has seen it.
Micros StepRunner::end_of(TaskRun run) {
  return on_device(plan_.tasks[run.task]) ? end_on_device(run) : seen_end(run);
}

Micros StepRunner::end_on_device(TaskRun run) { return queue_of(run).clock->time_of(event(run)); }

TaskRun StepRunner::finish(TaskRun run, Micros start, Micros end) {
  Queue& queue = queue_of(run);
  --queue.depth;
  queue.last_end = end;
  seen_end(run) = end;
  spans_.push_back({run, start, end});
  return run;
}

void StepRunner::drain() {
  for (Queue& queue : queues_) {
    while (is_busy(queue)) {
      if (const auto completion = completions_.take(from_seconds(1))) {
        note(queue_of(completion->run), *completion);
      }
    }
  }
  for (Queue& queue : queues_) forget(queue);
}

/// Leaves nothing in flight. Requires: all that is to be told of the queue was told.
void StepRunner::forget(Queue& queue) {
  if (!queue.in_flight.empty()) {
    try {
      queue.stream->synchronize();
    } catch (const std::exception&) {
      // The first error is already on its way to the user; what follows from it is not news.
    }
  }
  queue.in_flight.clear();
  queue.launches = 0;
  if (queue.drive) queue.drive->forget();
  queue.depth = 0;
}

/// Whether a completion of the queue, of the host, of drives or of a launch, is still to come.
bool StepRunner::is_busy(const Queue& queue) const {
  if (queue.drive) return queue.drive->running() > 0;
  if (queue.host) return queue.depth > 0;
  return !queue.in_flight.empty() && !queue.in_flight.back().begun;  // launched in order
}

/// Takes note of a completion that reports no task: of a launch, of a drive's copy, or of a host
/// task that failed or that is drained.
void StepRunner::note(Queue& queue, const HostCompletion& completion) {
  if (queue.drive) queue.drive->note(completion);
  if (queue.stream) note_launch(queue, completion);
  if (queue.host) --queue.depth;
}

void StepRunner::note_launch(Queue& queue, const HostCompletion& completion) {
  const auto launch = std::ranges::find(queue.in_flight, completion.run, &Launch::run);
  FERRY_CHECK(launch != queue.in_flight.end(), "only what is in flight is launched");
  launch->begun = completion.start;
  if (launch->counted == 0) return;
  operators_[launch->run.task] = launch->counted;
  queue.launches += launch->counted - launch->operators;
  launch->operators = launch->counted;
  queue.most_launches = std::max(queue.most_launches, launch->counted);
}

/// Before the step's first task starts, which `task` then is.
void StepRunner::prepare(int step, const Task& task) {
  auto& slot = numbers_[parity(step)];
  if (slot && slot->step == step) return;
  slot = feed_(step);
  named(task, [&] {
    for (auto& [id, clock] : clocks_) clock.renew();
  });
}

const StepNumbers& StepRunner::numbers(int step) const {
  const auto& slot = numbers_[parity(step)];
  FERRY_CHECK(slot && slot->step == step, "the numbers of a step are kept until two steps later");
  return *slot;
}

DeviceEvent& StepRunner::event(TaskRun run) { return *events_[run.step % 3][run.task]; }

std::vector<Span> StepRunner::take_spans() { return std::exchange(spans_, {}); }

Micros StepRunner::now() const {
  static const auto begin = std::chrono::steady_clock::now();
  return since(begin);
}

}  // namespace ferry
