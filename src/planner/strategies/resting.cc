// Where what is at home on no device rests: in DRAM, or by value on the drives.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <ranges>
#include <utility>

#include "planner/costs/queues.h"
#include "planner/strategies/device_homes.h"
#include "planner/strategies/homes.h"
#include "planner/strategies/streaming.h"
#include "planner/write/allocate.h"
#include "planner/write/stream_plan.h"
#include "spec/drive_array.h"

namespace ferry {
namespace {

/// A step of its first rounds: DRAM and devices need no more in it, and about as much.
PlanQuestion of_first_rounds(PlanQuestion question) {
  constexpr int kRounds = 3;
  if (question.rounds <= kRounds) return question;
  question.micro_batches = first_of_round(question, kRounds);
  question.rounds = kRounds;
  return question;
}

StreamSchedule as_far_as(int end_batch, StreamSchedule schedule) {
  std::erase_if(schedule.visits,
                [&](const StageVisit& visit) { return visit.end_batch > end_batch; });
  return schedule;
}

}  // namespace

// Of the schedule of least memory, what DRAM does not hold or, with drives, all that can leave it;
// and on the devices what neither holds.
StreamSearch::Attempt StreamSearch::find_homes() {
  needed_ = dram_need(question_, chain_, least_memory_);
  for (const ChainBlock& block : chain_.blocks) {
    swap_slots_ = std::max(swap_slots_, slot_size(block.saved));
  }
  swap_slots_ =
      swap_slots_ * (with_roomy_saved_ring(least_memory_).saved_slots * least_memory_.devices);
  const auto resting = [&](Resting rule) {
    resting_ = rule;
    tried_.clear();
    return try_schedule(least_memory_, {});
  };
  const auto lacks = [](const Attempt& attempt, PlaceKind kind) {
    return attempt.lacking && attempt.lacking->kind == kind;
  };
  Attempt attempt = resting(Resting::by_value);
  if (lacks(attempt, PlaceKind::host) && has_drives(question_.machine)) {
    attempt = resting(Resting::on_drives);
  }
  const bool is_decided = !attempt.lacking || lacks(attempt, PlaceKind::device);
  return is_decided ? attempt : rest_on_devices(std::move(attempt));
}

/// Of what has to be known however large plans are: not counted. It fits DRAM if another rest can
/// make it.
Plan StreamSearch::plan_at_rest(const PlanQuestion& question,
                                const StreamSchedule& schedule) const {
  StreamSchedule resting = as_asked(schedule);
  while (true) {
    Plan plan = write_stream_plan(question, chain_, resting, TaskNames::none);
    const std::vector<Shortage> lacking = shortages(plan);
    const auto dram = std::ranges::find(lacking, PlaceKind::host, &Shortage::kind);
    if (dram == lacking.end() || !leave_free(resting, *dram)) return plan;
  }
}

/// With so many more whole blocks at home on all devices but the first block's: as few as leave the
/// others room in DRAM and in so many bytes of the drives. Nothing where these lack room whatever
/// devices hold.
std::optional<StreamSchedule> StreamSearch::fewest_at_home(StreamSchedule schedule, int elsewhere,
                                                           Bytes on_drives) const {
  schedule.on_devices.all_elsewhere = elsewhere;
  const auto lacks_room = [&](const PlanQuestion& question, int all) {
    schedule.on_devices.all = all;
    const Plan plan = plan_at_rest(question, as_far_as(question.micro_batches, schedule));
    const std::vector<Shortage> found = shortages(plan);
    return drive_peak(plan) > on_drives ||
           std::ranges::count(found, PlaceKind::device, &Shortage::kind) < std::ssize(found);
  };
  const auto counts = std::views::iota(0, DeviceHomes(chain_, schedule).most().all + 1);
  const PlanQuestion first = of_first_rounds(question_);
  auto fewest =
      std::ranges::partition_point(counts, [&](int all) { return lacks_room(first, all); });
  const bool is_part = first.micro_batches < question_.micro_batches;
  while (is_part && fewest != counts.end() && lacks_room(question_, *fewest)) ++fewest;
  if (fewest == counts.end()) return std::nullopt;
  schedule.on_devices.all = *fewest;
  return schedule;
}

/// The same, in the visits and so spread that the devices need least. However much they have, so
/// that with more they have the same at home.
std::optional<StreamSchedule> StreamSearch::least_at_home(Bytes on_drives) {
  std::vector<StreamSchedule> visits = {least_memory_};
  visits.insert(visits.end(), even_.begin(), even_.end());
  std::optional<StreamSchedule> least;
  Bytes need;
  stand_on(Bytes{});  // regions take what they need, not what is left
  for (const StreamSchedule& each : visits) {
    for (const int elsewhere : kElsewhere) {
      if (elsewhere > DeviceHomes(chain_, each).most().all_elsewhere) break;
      std::optional<StreamSchedule> found = fewest_at_home(each, elsewhere, on_drives);
      if (!found) continue;
      const Bytes needs = device_peak(plan_at_rest(question_, *found));
      if (least && need <= needs) continue;
      need = needs;
      least = std::move(found);
    }
  }
  question_ = asked_;
  return least;
}

/// For what neither DRAM nor drives hold: whole blocks rest on the devices, as few as leave the
/// others room. Where the devices do not hold them, that is lacking beside what they do.
StreamSearch::Attempt StreamSearch::rest_on_devices(Attempt lacking) {
  if (!homes_) return lacking;
  std::optional<StreamSchedule> schedule = least_at_home(kEverything);
  if (!schedule) return lacking;
  const auto fits_devices = [&](int all) {
    schedule->on_devices.all = all;
    return devices_hold(*schedule);
  };
  const int all = schedule->on_devices.all;
  if (!fits_devices(all)) {
    const auto counts = std::views::iota(0, all);
    const auto too_many = std::ranges::partition_point(counts, fits_devices);
    if (too_many == counts.begin()) return lacking;
    schedule->on_devices.all = *(too_many - 1);
  }
  Attempt attempt = try_schedule(*schedule, {});
  if (!attempt.lacking) least_memory_ = std::move(*schedule);
  return attempt;
}

bool StreamSearch::devices_hold(const StreamSchedule& schedule) const {
  const std::vector<Shortage> found = shortages(plan_at_rest(question_, schedule));
  return std::ranges::count(found, PlaceKind::device, &Shortage::kind) == 0;
}

bool StreamSearch::rest_less_on_drives(double share) {
  if (!homes_ || !needs_drives()) return false;
  StreamSchedule bare = least_memory_;
  bare.on_devices = {};
  const Plan plan = plan_at_rest(question_, bare);
  if (std::ssize(plan.tasks) > kShortPlan) return false;
  const double all = as_double(drive_peak(plan));
  const Bytes most{static_cast<std::int64_t>(all * share)};
  if (drive_peak(plan_at_rest(question_, least_memory_)) <= most) return false;
  std::optional<StreamSchedule> schedule = least_at_home(most);
  if (!schedule || !devices_hold(*schedule)) return false;
  least_memory_ = std::move(*schedule);
  return true;
}

// What leaves the devices for the drives passes through slots in DRAM, for which more moves there.
StreamSchedule StreamSearch::at_rest(StreamSchedule schedule, bool swaps_to_drive) const {
  schedule.homes = schedule.chosen_homes;
  if (schedule.homes.empty() && schedule.on_devices != HomeCounts{}) {
    schedule.homes = DeviceHomes(chain_, schedule).homes({}, schedule.on_devices);
  }
  schedule.activations_on_drive.clear();
  if (resting_ == Resting::by_value) {
    DramNeed needed = needed_;
    needed.all += schedule.left_free + (swaps_to_drive ? swap_slots_ : Bytes{});
    rest_by_value(question_, chain_, needed, host_limit(question_), schedule);
  } else if (resting_ == Resting::on_drives) {
    rest_all_on_drives(question_, chain_, schedule);
  }
  return schedule;
}

/// By device, what it takes beside room for any two neighbouring visits.
std::vector<Bytes> StreamSearch::needs_at_rest(const StreamSchedule& schedule) const {
  std::vector<Bytes> roomy;
  for (const DeviceNeed& need : device_needs(question_, chain_, at_rest(schedule, false))) {
    roomy.push_back(need.roomy);
  }
  return roomy;
}

/// Whether that is seen without writing a plan.
bool StreamSearch::lacks_device_memory(const StreamSchedule& schedule) const {
  const std::vector<DeviceNeed> needs = device_needs(question_, chain_, at_rest(schedule, false));
  for (int d = 0; d < schedule.devices; ++d) {
    if (needs[d].least > device_limit(question_, d)) return true;
  }
  return false;
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
    if (rest_elsewhere(schedule, left_free + lacking.missing() * times)) return true;
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
  const bool may_be_filled = resting_ == Resting::by_value && schedule.spares_dram();
  const bool is_worth_it = has_short_plans() || is_beforehand_;
  return may_be_filled && is_worth_it ? with_full_dram(rated, std::move(plan)) : std::move(plan);
}

/// With what DRAM has left, or half of it where that is too much, as much again of what is left
/// then, and so on: values are whole.
Plan StreamSearch::with_full_dram(Rated& rated, Plan plan) const {
  constexpr int kTries = 4;
  StreamSchedule& schedule = rated.draft.schedule;
  const bool may_share = question_.shares_dram && sums_wait(question_);
  Bytes left = host_limit(question_) - host_peak(plan);
  Bytes filled = left;
  for (int i = 0; i < kTries; ++i) {
    StreamSchedule fuller = schedule;
    if (!rest_elsewhere(fuller, schedule.left_free - filled)) break;
    std::optional<Bytes> more;
    if (!may_share) more = more_in_dram(chain_, schedule, fuller);
    if (!more || *more <= left) {  // else it is seen without writing it that there is no room
      Plan tried = write(fuller, rated.written);
      if (shortages(tried).empty()) {
        schedule = std::move(fuller);
        plan = std::move(tried);
        filled = left = host_limit(question_) - host_peak(plan);
        continue;
      }
    }
    filled = Bytes{filled.count / 2};
  }
  return plan;
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
  if (!has_drives(question_.machine)) return {};
  Bytes passing =
      chain_.activation * static_cast<std::int64_t>(chain_.size()) * question_.micro_batches;
  for (const ChainBlock& block : chain_.blocks) {
    if (!sums_wait(question_)) passing += landing_sum(block);
  }
  const Bytes rest = needed_.all - passing - host_limit(question_);
  const double bytes = std::max(0.0, static_cast<double>(rest.count) - spared);
  return read_and_written(drive_array(question_, chain_), bytes);
}

}  // namespace ferry
