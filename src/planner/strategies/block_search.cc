// Single blocks turned: what each has at home on its device, keeps for backward or sends away.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <ranges>
#include <utility>
#include <vector>

#include "base/side_by_side.h"
#include "planner/costs/bounds.h"
#include "planner/costs/queues.h"
#include "planner/strategies/device_homes.h"
#include "planner/strategies/streaming.h"
#include "spec/pass_names.h"

namespace ferry {
namespace {

constexpr std::size_t kSideBySide = 8;  // neighbours
// A neighbour is accepted that is no slower than what was accepted so many rounds ago ("late
// acceptance hill climbing", Burke and Bykov, EJOR 2017).
constexpr std::size_t kHistory = 20;
constexpr int kRepairs = 10;
// It also ends where so many rounds gained less than so much.
constexpr int kPatience = 40;
constexpr double kWorthGoingOn = 0.003;
// Where it gains little it takes nothing that is shorter by more than so many times what these
// rounds gained, or than such a share of what it may take: most starts of lower rungs end there.
constexpr int kFirstRounds = 5;
constexpr double kGainsOfFirst = 12;
constexpr double kLeastShare = 1.0 / 3;
// It takes no longer, on one core, than so many steps, since some thousands follow, or so long.
constexpr double kMostSteps = 16;
constexpr double kMostStepsOnDrives = 4;  // there are twice the rungs, and several starts
constexpr Micros kMostEffort = from_seconds(16);
constexpr Micros kTaskEffort{2.2};   // to write and simulate a task, on a 2-core Zen 4 machine
constexpr double kNearBound = 1.02;  // of the rung: nothing shorter by more can be found

}  // namespace

/// From the climb's best of every rung, on that rung. Those are left out where nothing that is
/// faster than the best or than another strategy's can be found, most of them if the highest comes
/// first; so the answer is as if none were, and more memory makes it no slower. Those near to their
/// bound are left out, too: that asks for nothing but the rung's own, whatever is above it.
void StreamSearch::search_blocks(const std::vector<Found>& found, double most_gain) {
  for (const auto& [rung, draft] : std::views::reverse(found)) {
    stand_on(rung);
    const Micros bound = bound_of_one_way(question_, chain_);
    const Micros least = std::max(draft.step() * (1 - most_gain), bound);
    if (draft.step() <= bound * kNearBound || least >= to_beat()) continue;
    passes_.run(pass_name::kBlocks, draft,
                [&](StreamDraft given) { return best_blocks(std::move(given), most_gain); });
  }
}

Micros StreamSearch::to_beat() const {
  return std::min(best_ ? best_->step() : kNever, asked_.faster_than.value_or(kNever));
}

int StreamSearch::block_tries(const StreamDraft& draft) const {
  const double steps = needs_drives() ? kMostStepsOnDrives : kMostSteps;
  const Micros effort = std::min(draft.step() * steps, kMostEffort);
  return static_cast<int>(effort.count / (kTaskEffort.count * static_cast<double>(tasks_)));
}

BlockMoves StreamSearch::block_moves(const StreamSchedule& schedule) const {
  const PlanJob& options = question_.options;
  const bool may_move = !options.stages && options.partition != Partitioner::mip;
  return {chain_,
          {.policies = may_keep(),
           .borders = may_move,
           .ahead = may_update_ahead(schedule),
           .again = question_.norm_first,
           .renewals = schedule.on_devices.renewed > 0,
           .drives = resting_ == Resting::by_value && schedule.uses_drives() &&
                     schedule.staging != kLeastStaging,
           .sums = sums_wait(question_)},
          static_cast<std::uint64_t>(rung_.count)};
}

/// By device, what a schedule may take there: the rung's memory, or where this one does not leave
/// room for any two neighbouring visits, as much as that would take.
std::vector<Bytes> StreamSearch::room_beside(const StreamSchedule& schedule) const {
  std::vector<Bytes> room = needs_at_rest(schedule);
  for (int d = 0; d < schedule.devices; ++d) {
    room[d] = std::max(room[d], device_limit(question_, d));
  }
  return room;
}

/// One that fits the devices, as far as is seen without writing it; nothing where none was found.
std::optional<StreamSchedule> StreamSearch::neighbour(const StreamSchedule& here,
                                                      const std::vector<Bytes>& room,
                                                      BlockMoves& moves) const {
  StreamSchedule schedule = moves.neighbour(here);
  schedule.left_free = {};
  for (int repair = 0; repair <= kRepairs; ++repair) {
    const std::vector<Bytes> needs = needs_at_rest(schedule);
    bool fits = true;
    for (int d = 0; d < schedule.devices; ++d) {
      if (needs[d] <= room[d]) continue;
      fits = false;
      moves.give_way(schedule, d);
    }
    if (fits) return schedule;
  }
  return std::nullopt;
}

/// As many neighbours as may be tried side by side, however many are.
std::vector<StreamSearch::Rated> StreamSearch::rate_neighbours(const StreamSchedule& here,
                                                               BlockMoves& moves,
                                                               Micros faster_than) const {
  const std::vector<Bytes> room = room_beside(here);
  std::vector<StreamSchedule> tried;
  for (std::size_t i = 0; i < kSideBySide; ++i) {
    auto schedule = neighbour(here, room, moves);
    if (schedule) tried.push_back(std::move(*schedule));
  }
  std::vector<Rated> rated(tried.size());
  std::vector<std::function<void()>> works;
  for (std::size_t i = 0; i < tried.size(); ++i) {
    works.push_back([&, i] { rated[i] = rate(as_asked(tried[i]), faster_than); });
  }
  side_by_side(works);
  return rated;
}

/// From neighbour to neighbour, the fastest of every round that may be accepted.
StreamDraft StreamSearch::best_blocks(StreamDraft draft, double most_gain) {
  const int rounds = block_tries(draft) / static_cast<int>(kSideBySide);
  if (rounds == 0) return draft;
  StreamDraft here = draft;
  if (here.schedule.chosen_homes.empty()) {
    here.schedule.chosen_homes =
        DeviceHomes(chain_, here.schedule).homes({}, here.schedule.on_devices);
  }
  here.schedule.policies.resize(chain_.size(), ActivationPolicy::recompute);
  BlockMoves moves = block_moves(here.schedule);
  std::array<Micros, kHistory> past;
  past.fill(here.step());
  const Micros start = draft.step();
  Micros least = start * (1 - most_gain);
  Micros gained_from = start;
  for (int round = 0; round < rounds; ++round) {
    if (round == kFirstRounds && gains_little()) {
      const double gained = 1 - draft.step().count / start.count;
      const double most_now = std::max(gained * kGainsOfFirst, most_gain * kLeastShare);
      least = std::max(least, start * (1 - most_now));
      if (least >= to_beat()) break;
    }
    if (round % kPatience == 0 && round > 0) {
      if (draft.step() > gained_from * (1 - kWorthGoingOn)) break;
      gained_from = draft.step();
    }
    const Micros limit = as_fast_as(std::max(here.step(), past[round % kHistory]));
    std::optional<StreamDraft> fastest;
    for (Rated& each : rate_neighbours(here.schedule, moves, limit)) {
      if (each.lacking || !each.is_exact) continue;
      if (each.draft.step() >= limit || each.draft.step() < least) continue;
      keep_best(each);
      if (!fastest || each.draft.step() < fastest->step()) fastest = std::move(each.draft);
    }
    if (fastest) here = std::move(*fastest);
    past[round % kHistory] = here.step();
    if (here.step() < draft.step()) draft = here;
  }
  return draft;
}

}  // namespace ferry
