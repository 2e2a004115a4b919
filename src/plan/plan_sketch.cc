#include "plan/plan_sketch.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "plan/words.h"

namespace ferry {
namespace {

// A task of one of two consecutive steps.
struct Turn {
  int step = 0;
  TaskId task;
};

// Who used a slot last.
struct SlotUse {
  std::optional<Turn> writer;
  std::vector<Turn> readers;  // since then
};

// Adds `earlier` to what `later` waits for, unless their queue already orders them.
void order(Plan& plan, Turn earlier, Turn later) {
  Task& task = plan.tasks[later.task];
  const Task& first = plan.tasks[earlier.task];
  if (first.resource == task.resource) return;
  auto& list = earlier.step == later.step ? task.after : task.after_previous;
  // Of several tasks of one queue the last is enough.
  for (TaskId& listed : list) {
    if (plan.tasks[listed].resource != first.resource) continue;
    listed = std::max(listed, earlier.task);
    return;
  }
  list.push_back(earlier.task);
}

}  // namespace

PlaceId PlanSketch::place(const std::string& name, PlaceKind kind, Bytes workspace) {
  return plan.places.add({name, kind, {}, workspace});
}

PoolId PlanSketch::pool(const std::string& name, double capacity) {
  return plan.pools.add({name, capacity});
}

ResourceId PlanSketch::resource(Resource resource) {
  return plan.resources.add(std::move(resource));
}

SlotId PlanSketch::slot(PlaceId place, Bytes bytes) {
  Bytes& end = plan.places[place].budget;  // until finish(): slots so far
  const SlotId slot = slots_.add({place, end});
  end += bytes;
  return slot;
}

ValueId PlanSketch::value(const std::string& name, Bytes bytes) {
  const auto [at, is_new] = values_.emplace(name, plan.values.end_id());
  if (is_new) {
    auto made = value_from_name(name);
    FERRY_CHECK(made.has_value(), name);
    made->bytes = bytes;
    plan.values.push_back(*made);
  }
  return at->second;
}

InstanceId PlanSketch::at(ValueId value, SlotId slot) {
  const auto [at, is_new] = instances_.emplace(std::pair(value, slot), plan.instances.end_id());
  if (is_new) {
    const Slot& region = slots_[slot];
    plan.instances.push_back({value, region.place, region.offset, false});
    slot_of_.push_back(slot);
  }
  return at->second;
}

void PlanSketch::make_home(InstanceId instance) { plan.instances[instance].home = true; }

void PlanSketch::task(Task task) { plan.tasks.push_back(std::move(task)); }

void PlanSketch::copy(ResourceId resource, InstanceId from, InstanceId to) {
  const Instance& target = plan.instances[to];
  const Value& moved = plan.values[target.value];
  Task task;
  task.name = value_name(moved) + ">" + plan.places[target.place].name;
  const int repeat = repeats_[task.name]++;
  if (repeat > 0) task.name += '#' + std::to_string(repeat);
  task.kind = TaskKind::copy;
  task.resource = resource;
  task.block = moved.block;
  task.micro_batch = moved.micro_batch;
  task.reads = {from};
  task.writes = {to};
  task.bytes = moved.bytes;
  plan.tasks.push_back(std::move(task));
}

Plan PlanSketch::finish() {
  IdVector<SlotId, SlotUse> uses(slots_.size());
  for (int step = 0; step < 2; ++step) {
    for (const TaskId id : plan.tasks.ids()) {
      const Turn turn{step, id};
      const Task& task = plan.tasks[id];
      for (const InstanceId instance : task.reads) {
        SlotUse& use = uses[slot_of_[instance]];
        if (use.writer) order(plan, *use.writer, turn);
        use.readers.push_back(turn);
      }
      for (const InstanceId instance : task.writes) {
        SlotUse& use = uses[slot_of_[instance]];
        if (use.writer) order(plan, *use.writer, turn);
        for (const Turn& reader : use.readers) order(plan, reader, turn);
        use = {turn, {}};
      }
    }
  }
  for (Task& task : plan.tasks) {
    std::sort(task.after.begin(), task.after.end());
    std::sort(task.after_previous.begin(), task.after_previous.end());
  }
  for (Place& place : plan.places) place.budget += place.workspace;
  return plan;
}

}  // namespace ferry
