// What rests on the devices: which blocks are at home there, whose weights and sums stay, and what
// forward keeps for backward, which competes with them for the same bytes.
#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "planner/costs/queues.h"
#include "planner/strategies/device_homes.h"
#include "planner/strategies/streaming.h"
#include "planner/write/stream_plan.h"
#include "spec/pass_names.h"

namespace ferry {
namespace {

/// The largest of 0 to `most` that fits, where what is less than one that fits does, too.
template <typename Fits>
std::optional<int> largest(int most, Fits fits) {
  if (!fits(0)) return std::nullopt;
  if (fits(most)) return most;
  int good = 0;
  int bad = most;
  while (bad - good > 1) {
    const int middle = (good + bad) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

}  // namespace

// Homes compete for memory with what blocks keep and with the stages that pass, so they are tried
// behind the best policies, before any, and with stages of one block.
StreamDraft StreamSearch::refine_homes(StreamDraft first, StreamDraft finished) {
  constexpr double kPromising = 1.03;  // of the best step: rings gain no more, as a rule
  StreamDraft best = with_homes(std::move(finished), Then::rings);
  std::vector<StreamDraft> starts;
  starts.push_back(std::move(first));
  Attempt finest = try_longest_ring(least_memory_, kRoomyRing, {});
  if (finest.draft) starts.push_back(std::move(*finest.draft));
  for (StreamDraft& start : starts) {
    StreamDraft other = with_homes(std::move(start), Then::policies);
    if (question_.options.activations == ActivationRule::automatic) {
      other = with_policies(std::move(other), {Leaving::for_dram, Rings::roomy});
    }
    other = with_homes(std::move(other), Then::rings);
    if (other.step() < best.step() * kPromising) other = refine_rings_and_updates(std::move(other));
    best = faster(std::move(best), std::optional(std::move(other)));
  }
  best = with_fills(std::move(best));
  return passes_.run(pass_name::kHomes, std::move(best),
                     [&](StreamDraft given) { return neighbouring_homes(std::move(given)); });
}

StreamDraft StreamSearch::with_homes(StreamDraft draft, Then then) {
  return passes_.run(pass_name::kHomes, std::move(draft),
                     [&](StreamDraft given) { return best_homes(std::move(given), then); });
}

/// Weights at home save most copies per byte, whole blocks most in all: either goes first. Sums
/// that wait may, too, once nothing else is to come: they let the links work through forward.
StreamDraft StreamSearch::best_homes(StreamDraft draft, Then then) {
  using Kind = int HomeCounts::*;
  constexpr Kind kAll = &HomeCounts::all, kSums = &HomeCounts::sums,
                 kWeights = &HomeCounts::weights;
  std::vector<std::array<Kind, 3>> orders = {{kAll, kSums, kWeights}, {kWeights, kAll, kSums}};
  if (then == Then::rings) orders.push_back({kSums, kAll, kWeights});
  const HomeCounts most = DeviceHomes(chain_, draft.schedule).most();
  const StreamSchedule start = draft.schedule;
  const Micros before = draft.step();
  for (const auto& order : orders) {
    std::optional<StreamDraft> other;
    for (const Kind kind : order) {
      auto more = with_more(other ? other->schedule : start, other ? other->step() : before, kind,
                            most.*kind);
      if (more) other = std::move(more);
    }
    draft = faster(std::move(draft), std::move(other));
  }
  return draft;
}

/// Some blocks more or fewer of each kind, by ever smaller steps.
StreamDraft StreamSearch::neighbouring_homes(StreamDraft draft) {
  const HomeCounts most = DeviceHomes(chain_, draft.schedule).most();
  for (const auto kind : {&HomeCounts::all, &HomeCounts::sums, &HomeCounts::weights}) {
    for (int by = draft.schedule.on_devices.*kind / 4; by > 0; by /= 2) {
      const StreamSchedule chosen = draft.schedule;
      for (const int count : {chosen.on_devices.*kind - by, chosen.on_devices.*kind + by}) {
        if (count > most.*kind) continue;
        StreamSchedule tried = chosen;
        tried.on_devices.*kind = count;
        draft = faster_of(std::move(draft), tried);
      }
    }
  }
  return draft;
}

/// From few blocks to many, as far as they fit and make the step shorter than that; then what is
/// between the last that fit and the first that did not. Nothing where none does.
std::optional<StreamDraft> StreamSearch::with_more(StreamSchedule schedule, Micros step,
                                                   int HomeCounts::*kind, int most) {
  constexpr int kPatience = 2;
  std::optional<StreamDraft> best;
  int& count = schedule.on_devices.*kind;
  int fits = count;
  int too_many = most + 1;
  for (int failed = 0; failed < kPatience && fits + 1 < too_many;) {
    const int next = too_many > most ? fits + 1 + fits / 2 : (fits + too_many) / 2;
    count = std::min(next, most);
    Attempt attempt = try_schedule(schedule, step);
    if (attempt.lacking) {
      too_many = count;
      continue;
    }
    fits = count;
    const bool gained = attempt.draft && attempt.draft->step() < step;
    failed = gained ? 0 : failed + 1;
    if (!gained) continue;
    best = std::move(attempt.draft);
    step = best->step();
  }
  return best;
}

// ---- homes and what forward keeps, together ----

/// What forward keeps and the sums that wait share a region (shared_region.h): where the one fits,
/// much of the other does, too. So they are counted out together, for every number of whole blocks,
/// beside room for any two neighbouring visits.
StreamDraft StreamSearch::with_fills(StreamDraft draft) {
  std::vector<StreamSchedule> visits = {draft.schedule};
  for (const StreamSchedule& regular : regular_) visits.push_back(regular);
  for (const StreamSchedule& each : visits) {
    const Micros before = draft.step();
    draft = passes_.run(pass_name::kHomes, std::move(draft),
                        [&](StreamDraft given) { return best_fill(std::move(given), each); });
    if (draft.step() < before) draft = refine_rings_and_updates(std::move(draft));
  }
  return draft;
}

StreamDraft StreamSearch::best_fill(StreamDraft draft, StreamSchedule visits) {
  constexpr int kCoarse = 8;
  visits = with_slots(std::move(visits), kRoomyRing);
  visits.saved_slots = StreamSchedule{}.saved_slots;
  visits.updates_as_landed = draft.schedule.updates_as_landed;
  const int most = DeviceHomes(chain_, visits).most().all;
  const int coarse = std::max(1, most / kCoarse);
  int best = 0;
  const auto try_whole = [&](int all) {
    const Micros before = draft.step();
    const bool fits = try_fills(draft, visits, all);
    if (draft.step() < before) best = all;
    return fits;
  };
  for (int all = 0; all <= most && try_whole(all);) all += coarse;
  for (int by = coarse / 2; by > 0; by /= 2) {
    const int middle = best;
    for (const int all : {middle - by, middle + by}) {
      if (all >= 0 && all <= most) try_whole(all);
    }
  }
  return draft;
}

/// Most of what fits beside so many whole blocks: all that can be kept or less, since sums that
/// wait take room, too. False: nothing fits.
bool StreamSearch::try_fills(StreamDraft& draft, const StreamSchedule& visits, int all) {
  constexpr std::array kShares = {1.0, 0.875, 0.75, 0.5};
  constexpr int kPatience = 2;
  const bool keeps = question_.options.activations == ActivationRule::automatic &&
                     passes_.has(pass_name::kActivations);
  const KeptSlots slots = kept_slots(chain_, visits);
  const int blocks = keeps ? static_cast<int>(chain_.size()) : 0;
  const auto filled = [&](int kept, int sums) {
    StreamSchedule schedule = visits;
    schedule.on_devices = {.all = all, .sums = sums};
    schedule.policies =
        stay_and_leave(chain_, slots, question_.micro_batches, static_cast<std::size_t>(kept), 0);
    return schedule;
  };
  const auto most_kept = largest(blocks, [&](int kept) { return is_roomy(filled(kept, 0)); });
  if (!most_kept) return false;
  const int most_sums = DeviceHomes(chain_, visits).most().sums;
  int failed = 0;
  for (const double share : kShares) {
    const int kept = static_cast<int>(*most_kept * share);
    const auto sums = largest(most_sums, [&](int count) { return is_roomy(filled(kept, count)); });
    const Micros before = draft.step();
    draft = faster_of(std::move(draft), filled(kept, sums.value_or(0)));
    failed = draft.step() < before ? 0 : failed + 1;
    if (failed == kPatience || *most_kept == 0) break;
  }
  return true;
}

/// Whether the devices have room for it and for any two neighbouring visits.
bool StreamSearch::is_roomy(const StreamSchedule& schedule) const {
  const std::vector<Bytes> needs = roomy_needs(question_, chain_, at_rest(schedule, false));
  for (int d = 0; d < schedule.devices; ++d) {
    if (needs[static_cast<std::size_t>(d)] > device_limit(question_, d)) return false;
  }
  return true;
}

}  // namespace ferry
