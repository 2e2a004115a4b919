// Where what is at home on no device rests: in DRAM, or by value on the drives.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "planner/costs/queues.h"
#include "planner/strategies/device_homes.h"
#include "planner/strategies/homes.h"
#include "planner/strategies/streaming.h"
#include "planner/write/allocate.h"
#include "planner/write/stream_plan.h"
#include "spec/drive_array.h"

namespace ferry {

bool StreamSearch::has_drives() const { return drive_array(question_.machine).count > 0; }

// With drives: of the schedule of least memory, what DRAM does not hold or all that can leave it.
StreamSearch::Attempt StreamSearch::find_homes() {
  needed_ = host_peak(write(least_memory_));
  for (const ChainBlock& block : chain_.blocks) {
    swap_slots_ = std::max(swap_slots_, slot_size(block.saved));
  }
  swap_slots_ =
      swap_slots_ * (with_roomy_saved_ring(least_memory_).saved_slots * least_memory_.devices);
  Attempt attempt;
  for (const Resting resting : {Resting::by_value, Resting::on_drives}) {
    resting_ = resting;
    tried_.clear();
    attempt = try_schedule(least_memory_, {});
    if (!attempt.lacking || attempt.lacking->kind != PlaceKind::host) break;
  }
  return attempt;
}

// What leaves the devices for the drives passes through slots in DRAM, for which more moves there.
StreamSchedule StreamSearch::at_rest(StreamSchedule schedule, bool swaps_to_drive) const {
  schedule.homes = schedule.chosen_homes;
  if (schedule.homes.empty() && schedule.on_devices != HomeCounts{}) {
    schedule.homes = DeviceHomes(chain_, schedule).homes({}, schedule.on_devices);
  }
  schedule.activations_on_drive.clear();
  if (resting_ == Resting::by_value) {
    const Bytes beside = schedule.left_free + (swaps_to_drive ? swap_slots_ : Bytes{});
    rest_by_value(question_, chain_, needed_ + beside, host_limit(question_), schedule);
  } else if (resting_ == Resting::on_drives) {
    rest_all_on_drives(question_, chain_, schedule);
  }
  return schedule;
}

/// By device, what it takes beside room for any two neighbouring visits.
std::vector<Bytes> StreamSearch::needs_at_rest(const StreamSchedule& schedule) const {
  return roomy_needs(question_, chain_, at_rest(schedule, false));
}

/// With so much of DRAM left free. Returns whether that changes what rests where.
bool StreamSearch::rest_elsewhere(StreamSchedule& schedule, Bytes left_free) const {
  StreamSchedule moved = schedule;
  moved.left_free = left_free;
  moved = as_asked(moved);
  const bool differs =
      moved.homes != schedule.homes || moved.activations_on_drive != schedule.activations_on_drive;
  if (differs) schedule = std::move(moved);
  return differs;
}

// What the schedule has in DRAM beside what rests there adds up to more than was left for it.
// Returns whether another rest leaves more: values are whole, so a little more may change nothing.
bool StreamSearch::leave_free(StreamSchedule& schedule, const Shortage& lacking) const {
  constexpr int kMostTimes = 64;
  if (resting_ != Resting::by_value || lacking.kind != PlaceKind::host) return false;
  const Bytes left_free = schedule.left_free;
  for (int times = 1; times <= kMostTimes; times *= 2) {
    if (rest_elsewhere(schedule, left_free + (lacking.need - lacking.have) * times)) return true;
  }
  return false;
}

/// The plan of the schedule, which is told again what rests where until the plan fits DRAM and,
/// where something rests on the drives and plans are short, fills it: rest_by_value() counts DRAM's
/// other contents as those of the schedule of least memory.
Plan StreamSearch::settle(Rated& rated) const {
  StreamSchedule& schedule = rated.draft.schedule;
  Plan plan = write(schedule, rated.written);
  std::vector<Shortage> lacking = shortages(plan);
  while (!lacking.empty() && leave_free(schedule, lacking.front())) {
    plan = write(schedule, rated.written);
    lacking = shortages(plan);
  }
  if (!lacking.empty()) {
    rated.lacking = std::move(lacking.front());
    return plan;
  }
  const bool may_be_filled = resting_ == Resting::by_value && schedule.uses_drives();
  if (!may_be_filled || !has_short_plans()) return plan;
  StreamSchedule filled = schedule;
  const Bytes free = host_limit(question_) - host_peak(plan);
  if (!rest_elsewhere(filled, schedule.left_free - free)) return plan;
  Plan tried = write(filled, rated.written);
  if (!shortages(tried).empty()) return plan;
  schedule = std::move(filled);
  return tried;
}

/// At rest, with the policies that the job asks for if it does.
StreamSchedule StreamSearch::as_asked(const StreamSchedule& offered) const {
  const ActivationPolicies policies = asked_policies(offered);
  StreamSchedule schedule =
      at_rest(offered, std::ranges::count(policies, ActivationPolicy::swap_to_drive) > 0);
  schedule.policies = policies;
  return schedule;
}

// What the drives take for what rests there whatever visits and refinement are, where devices spare
// DRAM so many bytes: each byte is read and written. Without clipping sums pass it by; checkpoints
// may stay on the devices.
Micros StreamSearch::least_on_drives(double spared) const {
  if (resting_ == Resting::in_dram) return {};
  Bytes passing =
      chain_.activation * static_cast<std::int64_t>(chain_.size()) * question_.micro_batches;
  for (const ChainBlock& block : chain_.blocks) {
    if (!sums_wait(question_)) passing += landing_sum(block);
  }
  const Bytes rest = needed_ - passing - host_limit(question_);
  const double bytes = std::max(0.0, static_cast<double>(rest.count) - spared);
  return read_and_written(drive_array(question_, chain_), bytes);
}

}  // namespace ferry
