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
    for (const BlockHome& home : homes) add(home);
  }
  std::string take() { return std::move(key_); }

 private:
  void add(const BlockHome& home) {
    // All that a home has: what is new there has to be here.
    const auto& [on_device, weight_stays, sum_waits, sum_waits_in_dram, input_stays, renews_at_once,
                 weight_on_drive, state_on_drive, pieces_in_dram, sum_passes, sum_on_drive] = home;
    int flags = 0;
    for (const bool flag :
         {on_device, weight_stays, sum_waits, sum_waits_in_dram, input_stays, renews_at_once,
          weight_on_drive, state_on_drive, sum_passes, sum_on_drive}) {
      flags = 2 * flags + (flag ? 1 : 0);
    }
    add(static_cast<std::int16_t>(flags));
    add(static_cast<std::int16_t>(pieces_in_dram));
  }

  std::string key_;
};

// What tells schedules of one strategy apart, but for their homes.
ScheduleKey key_without_homes(const StreamSchedule& schedule) {
  ScheduleKey key;
  const auto& [states, pieces, weights, sums, activations] = schedule.staging;
  const bool leaves = std::ranges::any_of(schedule.policies, leaves_device);
  for (const int number :
       {schedule.activation_slots, schedule.updates_as_landed ? 1 : 0, schedule.sums_leave_first,
        schedule.updates_read_apart ? 1 : 0, schedule.straight ? 1 : 0,
        schedule.parts_states ? 1 : 0, schedule.updates_ahead, schedule.again_from, states, pieces,
        weights, sums, activations, leaves ? schedule.saved_slots : 0}) {
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
  const auto& [all, large, sums, weights, passing, all_elsewhere, sums_elsewhere, renewed] =
      schedule.on_devices;
  for (const int count :
       {all, large, sums, weights, passing, all_elsewhere, sums_elsewhere, renewed}) {
    key.add(count);
  }
  key.add(schedule.left_free.count);
  key.add(schedule.chosen_homes);
  return key.take();
}

}  // namespace ferry
