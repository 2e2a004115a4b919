// How updates go: in which order, ahead of the norm, and through which slots between DRAM and
// drives.
#include <array>
#include <utility>

#include "planner/strategies/homes.h"
#include "planner/strategies/streaming.h"
#include "spec/pass_names.h"

namespace ferry {

StreamDraft StreamSearch::best_updates(StreamDraft draft) {
  if (!sums_wait(question_) || question_.mode != PlanMode::train) return draft;
  StreamSchedule landed = draft.schedule;
  landed.updates_as_landed = true;
  return faster_of(std::move(draft), landed);
}

/// As the schedule of least memory passes what goes to updates and back; with what it has to have
/// on the devices.
StreamSchedule StreamSearch::staged(StreamSchedule schedule) const {
  schedule.on_devices = least_memory_.on_devices;
  schedule.updates_read_apart = least_memory_.updates_read_apart;
  schedule.sums_leave_first = least_memory_.sums_leave_first;
  schedule.leaving = least_memory_.leaving;
  schedule.staging = least_memory_.staging;
  return schedule;
}

/// What passes between DRAM and drives on the way to updates and back. The least room is what the
/// strategy has by its definition.
StreamDraft StreamSearch::best_staging(StreamDraft draft) {
  constexpr std::array kNeighbours = {1, 2, 3, 4, 6};
  if (!draft.schedule.spares_dram() || draft.schedule.staging == kLeastStaging) return draft;
  const auto without_and_with = [&](bool StreamSchedule::*choice) {
    StreamSchedule turned = draft.schedule;
    turned.*choice = !(turned.*choice);
    draft = faster_of(std::move(draft), turned);
  };
  without_and_with(&StreamSchedule::updates_read_apart);
  const auto try_each = [&](const auto& choices, auto choose) {
    draft = fastest_by(std::move(draft), choices, choose);
  };
  try_each(leaving_orders(chain_),
           [](StreamSchedule& schedule, const auto& order) { schedule.leaving = order; });
  constexpr std::array kShares = {0.0, 0.25, 0.5, 0.75, 1.0};
  if (sums_wait(question_)) {
    try_each(kShares, [&](StreamSchedule& schedule, double share) {
      schedule.sums_leave_first = static_cast<int>(share * static_cast<double>(chain_.size()));
    });
  }
  try_each(kNeighbours, [](StreamSchedule& schedule, int count) {
    for (const auto kind : kStagingKinds) schedule.staging.*kind = count;
    schedule.staging.pieces = 0;
  });
  if (!has_short_plans()) return draft;
  for (const auto kind : kStagingKinds) {
    try_each(kNeighbours,
             [&](StreamSchedule& schedule, int count) { schedule.staging.*kind = count; });
  }
  if (has_pieces(chain_)) {
    try_each(kNeighbours,
             [](StreamSchedule& schedule, int count) { schedule.staging.pieces = count; });
  }
  return draft;
}

/// Where something rests on drives DRAM is full.
bool StreamSearch::may_update_ahead(const StreamSchedule& schedule) const {
  return sums_wait(question_) && question_.mode == PlanMode::train && !schedule.uses_drives();
}

/// Whether new weights may come up in the step whose update makes them.
bool StreamSearch::may_renew_at_once(const StreamSchedule& schedule) const {
  if (sums_wait(question_)) return may_update_ahead(schedule);
  return question_.mode == PlanMode::train && !schedule.updates_at_end;
}

/// With clipping: updates ahead of the norm, of as many blocks as DRAM has room for what they find
/// and as the step gets shorter by.
StreamDraft StreamSearch::best_ahead(StreamDraft draft) {
  const int blocks = static_cast<int>(chain_.size());
  if (!may_update_ahead(draft.schedule)) return draft;
  return best_count(std::move(draft), &StreamSchedule::updates_ahead, blocks, Counts::any);
}

/// Where the step takes its norm first: the sums of as many blocks wait for it all the same as
/// there is room for and as the step gets shorter by. Between landings about as many as below,
/// unless something rests on the drives: DRAM has no room for more then.
StreamDraft StreamSearch::best_again(StreamDraft draft, bool lands) {
  const int blocks = static_cast<int>(chain_.size());
  if (!question_.norm_first || (!lands && draft.schedule.uses_drives())) return draft;
  return best_count(std::move(draft), &StreamSchedule::again_from, blocks - 1,
                    lands ? Counts::any : Counts::near);
}

/// Any: the most, the half of it, and so on. Then more or less than the best by ever smaller steps.
/// Where sums wait in place of backwards that run again, also with as many whole blocks at home as
/// fit, which leaves DRAM room for them.
StreamDraft StreamSearch::best_count(StreamDraft draft, int StreamSchedule::*count, int most,
                                     Counts tried) {
  constexpr int kPart = 8;
  return passes_.run(pass_name::kUpdates, std::move(draft), [&](StreamDraft given) {
    const auto try_each = [&](const std::vector<int>& counts) {
      std::vector<StreamSchedule> schedules;
      for (const int number : counts) {
        StreamSchedule turned = given.schedule;
        turned.*count = number;
        schedules.push_back(turned);
        if (homes_ && question_.norm_first) schedules.push_back(packed(std::move(turned)));
      }
      given = fastest_of(std::move(given), schedules);
    };
    std::vector<int> counts;
    for (int all = most; all > 0 && tried == Counts::any; all /= 2) counts.push_back(all);
    try_each(counts);
    const int half = (given.schedule.*count + 1) / 2;
    for (int by = tried == Counts::any ? half : 1 + most / kPart; by > 0; by /= 2) {
      const int chosen = given.schedule.*count;
      counts.clear();
      if (chosen - by > 0) counts.push_back(chosen - by);
      if (chosen + by < most) counts.push_back(chosen + by);
      try_each(counts);
    }
    return given;
  });
}

}  // namespace ferry
