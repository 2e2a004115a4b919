// Builds plans for tests and benchmarks: tasks in the order in which they would run one at a time,
// from which the dependencies follow.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plan/plan.h"

namespace ferry {

/// A region of a place that instances take turns in.
using SlotId = Id<struct SlotTag>;

class PlanSketch {
 public:
  /// Everything but values, instances and tasks is set here.
  Plan plan;

  PlaceId place(const std::string& name, PlaceKind kind, Bytes workspace);
  PoolId pool(const std::string& name, double capacity);
  ResourceId resource(Resource resource);

  /// Takes the next bytes of a place.
  SlotId slot(PlaceId place, Bytes bytes);

  /// The value of that name, made on first use.
  ValueId value(const std::string& name, Bytes bytes);

  /// The instance of a value in a slot, made on first use.
  InstanceId at(ValueId value, SlotId slot);
  void make_home(InstanceId instance);

  /// Appends a task.
  void task(Task task);

  /// Appends "VALUE>PLACE", a copy between two instances of one value.
  void copy(ResourceId resource, InstanceId from, InstanceId to);

  /// Sets every task's `after` and `after_previous` so that accesses to one slot happen in the
  /// order of the tasks, and every place's budget to what its slots and workspace need.
  Plan finish();

 private:
  struct Slot {
    PlaceId place;
    Bytes offset;
  };

  IdVector<SlotId, Slot> slots_;
  IdVector<InstanceId, SlotId> slot_of_;
  std::map<std::string, ValueId> values_;
  std::map<std::pair<ValueId, SlotId>, InstanceId> instances_;
  std::map<std::string, int> repeats_;  // copies named so far
};

}  // namespace ferry
