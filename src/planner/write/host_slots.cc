#include "planner/write/host_slots.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/write/allocate.h"
#include "planner/write/builder.h"
#include "planner/write/shared_region.h"

namespace ferry {
namespace {

bool is_unplaced(const Plan& plan, InstanceId id, PlaceId host) {
  return plan.instances[id].place == host && plan.instances[id].offset == kUnplaced;
}

ValueKind kind_of(const Plan& plan, InstanceId id) {
  return plan.values[plan.instances[id].value].kind;
}

bool is_activation(ValueKind kind) {
  return kind == ValueKind::activation || kind == ValueKind::saved;
}

/// What has a slot of its own: from the task that writes it first to the one that uses it last.
class HostStays {
 public:
  HostStays(const Plan& plan, PlaceId host, int batches) {
    IdVector<InstanceId, Stay> stays(plan.instances.size());
    for (const TaskId task : plan.tasks.ids()) {
      const auto use = [&](InstanceId id) {
        Stay& stay = stays[id];
        if (stay.size == Bytes{}) stay.first = task.index();
        stay.size = slot_size(plan.values[plan.instances[id].value].bytes);
        stay.last = task.index();
      };
      for (const InstanceId id : plan.tasks[task].reads) use(id);
      for (const InstanceId id : plan.tasks[task].writes) use(id);
    }
    for (const InstanceId id : plan.instances.ids()) {
      if (!is_unplaced(plan, id, host)) continue;
      std::vector<Stay>& others = is_activation(kind_of(plan, id)) ? activations_ : sums_;
      stays[id].id = id.number();
      others.push_back(stays[id]);
    }
    if (batches < plan.micro_batches) take_turns(plan, batches);
  }

  /// Gives all of them their slots; returns where these end.
  Bytes place(Plan& plan, Bytes first, Bytes room, bool shares) {
    Bytes apart;
    for (const Stay& stay : activations_) apart += stay.size;
    for (const Stay& stay : sums_) apart += stay.size;
    const Bytes least = share_region(activations_, sums_);
    const Bytes held{room.count - room.count % kSlotAlignment.count};
    const Bytes region = std::clamp(held, shares ? least : apart, apart);
    for (const Stay& stay : activations_) {
      plan.instances[InstanceId(stay.id)].offset = first + stay.offset;
    }
    for (const auto& [id, other] : same_slot_) {
      plan.instances[id].offset = plan.instances[other].offset;
    }
    for (const Stay& stay : sums_) {
      plan.instances[InstanceId(stay.id)].offset = first + stay.offset + (region - least);
    }
    return first + region;
  }

 private:
  /// Of rounds of so many micro-batches each has the slots of the one before.
  void take_turns(const Plan& plan, int batches) {
    std::map<std::tuple<ValueKind, BlockId, int>, std::size_t> known;
    std::vector<Stay> turns;
    for (const Stay& stay : activations_) {
      const Value& held = plan.values[plan.instances[InstanceId(stay.id)].value];
      const auto [at, fresh] =
          known.try_emplace({held.kind, held.block, held.micro_batch % batches}, turns.size());
      if (fresh) {
        turns.push_back(stay);
        continue;
      }
      Stay& all = turns[at->second];
      all.first = std::min(all.first, stay.first);
      all.last = std::max(all.last, stay.last);
      same_slot_.emplace_back(stay.id, all.id);
    }
    activations_ = std::move(turns);
  }

  std::vector<Stay> activations_, sums_;
  std::vector<std::pair<InstanceId, InstanceId>> same_slot_;  // as the second
};

/// Gives dA.b.m their slots, relative to where others end, behind those that are already there.
/// Returns what all of them take.
Bytes place_gradients(Plan& plan, PlaceId host, const GradientTurns& turns) {
  Bytes first = kBehind;
  for (const Instance& instance : plan.instances) {
    if (instance.place != host || instance.offset < kBehind) continue;
    first = std::max(first, instance.offset + slot_size(plan.values[instance.value].bytes));
  }
  Bytes end = first;
  for (const InstanceId id : plan.instances.ids()) {
    if (!is_unplaced(plan, id, host) || kind_of(plan, id) != ValueKind::activation_gradient) {
      continue;
    }
    Instance& instance = plan.instances[id];
    const Value& held = plan.values[instance.value];
    const int turn = plan.blocks[held.block].stage % turns.stages;
    const int batch = turn * turns.batches + held.micro_batch % turns.batches;
    instance.offset = first + turns.slot * batch;
    end = std::max(end, instance.offset + turns.slot);
  }
  return end - kBehind;
}

}  // namespace

void place_on_host(Plan& plan, PlaceId host, Bytes first, const GradientTurns& turns, bool shares) {
  const Bytes behind = place_gradients(plan, host, turns);
  const Bytes room = plan.places[host].budget - first - behind;
  const Bytes end = HostStays(plan, host, turns.batches).place(plan, first, room, shares);
  for (Instance& instance : plan.instances) {
    if (instance.place == host && instance.offset >= kBehind) instance.offset += end - kBehind;
  }
}

}  // namespace ferry
