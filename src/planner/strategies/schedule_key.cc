#include "planner/strategies/schedule_key.h"

#include <algorithm>
#include <concepts>
#include <utility>
#include <vector>

namespace ferry {
namespace {

// Numbers one behind the other, as they lie in memory: keys are made more often than plans.
class ScheduleKey {
 public:
  template <std::integral Number>
  void add(Number number) {
    key_.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  void add(const std::vector<BlockHome>& homes) {
    add(std::ssize(homes));
    for (const BlockHome& home : homes) {
      add(flags_of(home));
      add(static_cast<std::int16_t>(home.pieces_in_dram));
    }
  }
  std::string take() { return std::move(key_); }

 private:
  static std::int16_t flags_of(const BlockHome& home) {
    int bits = 0;
    for (const bool bit : {home.on_device, home.weight_stays, home.sum_waits,
                           home.sum_waits_in_dram, home.input_stays, home.renews_at_once,
                           home.weight_on_drive, home.state_on_drive, home.sum_passes}) {
      bits = 2 * bits + (bit ? 1 : 0);
    }
    return static_cast<std::int16_t>(bits);
  }

  std::string key_;
};

// What tells schedules of one strategy apart, but for their homes.
ScheduleKey key_without_homes(const StreamSchedule& schedule) {
  ScheduleKey key;
  const StagingRoom& room = schedule.staging;
  const bool leaves = std::ranges::any_of(schedule.policies, leaves_device);
  for (const int number :
       {schedule.activation_slots, schedule.updates_as_landed ? 1 : 0, schedule.sums_leave_first,
        schedule.updates_read_apart ? 1 : 0, schedule.straight ? 1 : 0,
        schedule.parts_states ? 1 : 0, schedule.updates_ahead, schedule.again_from, room.states,
        room.pieces, room.weights, room.sums, room.activations,
        leaves ? schedule.saved_slots : 0}) {
    key.add(number);
  }
  key.add(std::ssize(schedule.leaving));
  for (const BlockId b : schedule.leaving) key.add(b.number());
  key.add(std::ssize(schedule.policies));
  for (const ActivationPolicy policy : schedule.policies) key.add(static_cast<int>(policy));
  key.add(std::ssize(schedule.visits));
  for (const StageVisit& visit : schedule.visits) {
    for (const int part : {static_cast<int>(visit.direction), visit.device, visit.first, visit.end,
                           visit.first_batch, visit.end_batch}) {
      key.add(part);
    }
  }
  return key;
}

}  // namespace

std::string key_of(const StreamSchedule& schedule) {
  ScheduleKey key = key_without_homes(schedule);
  key.add(schedule.homes);
  return key.take();
}

std::string key_before_rest(const StreamSchedule& schedule) {
  ScheduleKey key = key_without_homes(schedule);
  const HomeCounts& on = schedule.on_devices;
  for (const int count : {on.all, on.large, on.sums, on.weights, on.passing, on.all_elsewhere,
                          on.sums_elsewhere, on.renewed}) {
    key.add(count);
  }
  key.add(schedule.left_free.count);
  key.add(schedule.chosen_homes);
  return key.take();
}

}  // namespace ferry
