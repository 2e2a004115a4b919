#include "plan/at_home.h"

#include <algorithm>
#include <tuple>
#include <vector>

namespace ferry {
namespace {

Bytes end_of(const Plan& plan, InstanceId id) {
  return plan.instances[id].offset + plan.values[plan.instances[id].value].bytes;
}

/// By instance, whether its slot shares no byte with another's.
IdVector<InstanceId, bool> alone(const Plan& plan) {
  IdVector<InstanceId, bool> result(plan.instances.size(), true);
  std::vector<InstanceId> order;
  for (const InstanceId id : plan.instances.ids()) order.push_back(id);
  std::ranges::sort(order, {}, [&](InstanceId id) {
    return std::tuple(plan.instances[id].place, plan.instances[id].offset);
  });
  InstanceId farthest;  // of those before at the same place, the one that ends last
  for (const InstanceId id : order) {
    const Instance& instance = plan.instances[id];
    const bool first = !farthest.valid() || plan.instances[farthest].place != instance.place;
    if (!first && instance.offset < end_of(plan, farthest)) {
      result[id] = result[farthest] = false;
    }
    if (first || end_of(plan, id) > end_of(plan, farthest)) farthest = id;
  }
  return result;
}

}  // namespace

IdVector<InstanceId, bool> at_home(const Plan& plan) {
  IdVector<InstanceId, int> writers(plan.instances.size());
  for (const Task& task : plan.tasks) {
    for (const InstanceId id : task.writes) ++writers[id];
  }
  IdVector<InstanceId, bool> rests = alone(plan);
  for (const InstanceId id : plan.instances.ids()) {
    const Instance& instance = plan.instances[id];
    const ValueKind kind = plan.values[instance.value].kind;
    const bool waits = kind == ValueKind::gradient || kind == ValueKind::rounded;
    const bool stays = kind == ValueKind::weight && writers[id] == 1;
    rests[id] = instance.home || (rests[id] && (waits || stays));
  }
  return rests;
}

IdVector<PlaceId, Bytes> bytes_at_home(const Plan& plan) {
  const IdVector<InstanceId, bool> rests = at_home(plan);
  IdVector<PlaceId, Bytes> sums(plan.places.size());
  for (const InstanceId id : plan.instances.ids()) {
    const Instance& instance = plan.instances[id];
    if (rests[id]) sums[instance.place] += plan.values[instance.value].bytes;
  }
  return sums;
}

std::map<std::string, std::pair<PlaceId, Bytes>> homes_of(const Plan& plan) {
  std::map<std::string, std::pair<PlaceId, Bytes>> homes;
  for (const Instance& at : plan.instances) {
    if (at.home) homes[value_name(plan.values[at.value])] = {at.place, at.offset};
  }
  return homes;
}

}  // namespace ferry
