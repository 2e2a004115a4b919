// What rests on the devices: which blocks are at home there, whose weights and sums stay, and what
// forward keeps for backward, which competes with them for the same bytes.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "planner/costs/queues.h"
#include "planner/strategies/device_homes.h"
#include "planner/strategies/homes.h"
#include "planner/strategies/streaming.h"
#include "planner/write/allocate.h"
#include "spec/pass_names.h"

namespace ferry {
namespace {

constexpr double kPromisingFill = 1.05;  // of the best step

/// The largest of 0 to `most` that fits, where what is less than one that fits does, too; 0 does.
template <typename Fits>
int largest(int most, Fits fits) {
  if (fits(most)) return most;
  int good = 0;
  int bad = most;
  while (bad - good > 1) {
    const int middle = (good + bad) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

HomeCounts whole_blocks(const HomeCounts& counts) {
  return {.all = counts.all,
          .large = counts.large,
          .passing = counts.passing,
          .all_elsewhere = counts.all_elsewhere};
}

}  // namespace

/// Of the draft's visits and of others: as much at home as it has, or some more or less, with what
/// fits beside it; then single counts.
StreamDraft StreamSearch::more_at_home(StreamDraft draft) {
  const HomeCounts whole = whole_blocks(draft.schedule.on_devices);
  std::vector<StreamSchedule> visits = {draft.schedule};
  for (const StreamSchedule& each : regular_) {
    if (each.visits == draft.schedule.visits) continue;
    visits.push_back(each);
    visits.back().straight = draft.schedule.straight;
  }
  for (const StreamSchedule& each : visits) {
    for (const Fills rest : {Fills::sums, Fills::sums_and_leave, Fills::weights}) {
      if (rest == Fills::weights && !is_small_step(question_, chain_)) continue;
      Fill fill = fill_of(each, draft, rest, whole);
      if (&each != &visits.front()) fill.whole.all = most_whole(fill);
      draft = best_fill(std::move(draft), fill);
    }
  }
  return neighbouring_homes(best_elsewhere(best_passing(std::move(draft))));
}

/// Where something rests on the drives: nothing but whole blocks, as many as the device holds, so
/// that the least rests there. One that has them in their order, and others that have the largest
/// one or two, embeddings and heads as a rule, first.
std::vector<StreamDraft> StreamSearch::dense_homes(const StreamDraft& draft) {
  constexpr double kPromising = 1.05;  // of the best step
  if (!draft.schedule.uses_drives()) return {};
  std::vector<StreamDraft> found;
  std::vector<BlockHome> before;
  StreamSchedule dense = with_slots(draft.schedule, kRoomyRing);
  dense.policies = {};
  beside_climb([&] {
    for (const int large : {0, 1, 2}) {
      std::optional<StreamDraft> densest;
      const auto fits = [&](int all) {
        dense.on_devices = {.all = all, .large = large};
        Attempt attempt = try_schedule(dense, draft.step() * kPromising);
        if (attempt.draft) densest = std::move(attempt.draft);
        return !attempt.lacking;
      };
      largest(DeviceHomes(chain_, dense).most().all, fits);
      if (!densest || densest->schedule.homes == before) continue;
      before = densest->schedule.homes;
      found.push_back(passes_.run(pass_name::kHomes, *densest, [&](StreamDraft given) {
        return neighbouring_homes(std::move(given));
      }));
    }
  });
  return found;
}

/// Without clipping, where states rest on the drives: sums of some of their blocks wait on
/// the devices until all others are down, and whole blocks make room. Theirs are the last updates
/// then, and drives that would idle in the next forward move their states. Such drives need read
/// ahead less, so room for one block's states, or a few pieces, is tried, too.
StreamDraft StreamSearch::with_waiting(StreamDraft draft) {
  constexpr std::array kShares = {1.0, 0.75, 0.5};
  constexpr int kPatience = 2;
  constexpr int kFewPieces = 3;
  if (sums_wait(question_) || !draft.schedule.uses_drives()) return draft;
  StreamSchedule tried = draft.schedule;
  tried.on_devices = whole_blocks(tried.on_devices);
  tried.chosen_homes.clear();
  const int whole = tried.on_devices.all;
  std::vector<StagingRoom> rooms = {tried.staging};
  StagingRoom small = tried.staging;
  if (has_pieces(chain_)) {
    small.pieces = kFewPieces;
  } else {
    small.states = 1;
  }
  if (small != tried.staging) rooms.push_back(small);
  const auto fits = [&](int sums) { return is_roomy(waiting(tried, sums, &BlockHome::sum_waits)); };
  beside_climb([&] {
    for (const std::vector<BlockId>& order : leaving_orders(chain_)) {
      tried.leaving = order;
      int failed = 0;
      for (int all = whole; all >= 0 && failed < kPatience; --all) {
        tried.on_devices.all = all;
        const Micros before = draft.step();
        for (const StagingRoom& room : rooms) {
          tried.staging = room;
          const int most = largest(static_cast<int>(chain_.size()), fits);
          for (const double share : kShares) {
            const int sums = static_cast<int>(most * share);
            if (sums == 0) continue;
            draft = faster_of(std::move(draft), waiting(tried, sums, &BlockHome::sum_waits));
          }
        }
        failed = draft.step() < before ? 0 : failed + 1;
      }
    }
  });
  return draft;
}

/// With states in DRAM in part, and sums that wait there: of as many as the step gets shorter by,
/// in turn with the room for what passes to updates.
StreamDraft StreamSearch::with_states_in_part(StreamDraft draft) {
  constexpr double kWorthGoingOn = 0.003;
  if (!draft.schedule.uses_drives() || !has_pieces(chain_)) return draft;
  StreamSchedule parted = draft.schedule;
  parted.parts_states = true;
  beside_climb([&] {
    Attempt attempt = try_schedule(parted, {});
    if (!attempt.draft) return;
    draft = std::move(*attempt.draft);
    Micros before = kNever;
    while (draft.step() < before * (1 - kWorthGoingOn)) {
      before = draft.step();
      draft = restaged(best_waiting_in_dram(std::move(draft)));
    }
  });
  return draft;
}

StreamDraft StreamSearch::best_waiting_in_dram(StreamDraft draft) {
  constexpr int kPatience = 2;
  StreamSchedule tried = draft.schedule;
  for (const std::vector<BlockId>& order : leaving_orders(chain_)) {
    tried.leaving = order;
    int failed = 0;
    for (int sums = 1; failed < kPatience; ++sums) {
      const Micros before = draft.step();
      draft = faster_of(std::move(draft), waiting(tried, sums, &BlockHome::sum_waits_in_dram));
      failed = draft.step() < before ? 0 : failed + 1;
    }
  }
  return draft;
}

/// The schedule with the sums of so many blocks waiting on the device or in DRAM, beside what else
/// it has at home. Of blocks whose states rest on drives, evenly spread, so that drives neither
/// stand still while backward goes through the deepest nor come too late for forward.
StreamSchedule StreamSearch::waiting(StreamSchedule schedule, int sums,
                                     bool BlockHome::*where) const {
  std::vector<BlockHome>& homes = schedule.chosen_homes;
  if (homes.empty()) homes = DeviceHomes(chain_, schedule).homes({}, schedule.on_devices);
  for (BlockHome& home : homes) home.*where = false;
  const StreamSchedule asked = as_asked(schedule);
  std::vector<std::size_t> may_wait;
  for (std::size_t b = 1; b < chain_.size(); ++b) {
    const BlockHome& home = asked.homes[b];
    if (home.state_on_drive && !home.sum_waits && !home.sum_waits_in_dram) may_wait.push_back(b);
  }
  const std::size_t count = std::min(may_wait.size(), static_cast<std::size_t>(sums));
  for (std::size_t i = 1; i <= count; ++i) {
    homes[may_wait[may_wait.size() * i / count - 1]].*where = true;
  }
  return schedule;
}

/// As many whole blocks at home, filled up with what forward keeps and sums of other blocks that
/// wait: which of them do changes how many blocks can keep.
StreamDraft StreamSearch::best_passing(StreamDraft draft) {
  const StreamSchedule chosen = draft.schedule;
  for (const Fills rest : {Fills::sums, Fills::sums_and_leave}) {
    Fill fill = fill_of(chosen, draft, rest, whole_blocks(chosen.on_devices));
    std::vector<StreamSchedule> schedules;
    for (const int passing : {0, 2, 3, 4}) {
      if (passing == chosen.on_devices.passing) continue;
      fill.whole.passing = passing;
      if (auto full = filled(fill)) schedules.push_back(std::move(*full));
    }
    draft = fastest_of(std::move(draft), schedules);
  }
  return draft;
}

/// More whole blocks on the devices that have no embedding.
StreamDraft StreamSearch::best_elsewhere(StreamDraft draft) {
  const StreamSchedule chosen = draft.schedule;
  if (chosen.devices == 1) return draft;
  for (const Fills rest : {Fills::sums, Fills::sums_and_leave}) {
    std::vector<Fill> fills(4, fill_of(chosen, draft, rest, whole_blocks(chosen.on_devices)));
    for (int elsewhere = 0; elsewhere < 4; ++elsewhere) {
      fills[elsewhere].whole.all_elsewhere = elsewhere;
    }
    look_ahead(fills, draft.step() * kPromisingFill);
    for (const Fill& fill : fills) draft = best_fill(std::move(draft), fill);
  }
  return draft;
}

/// Some whole blocks less, and in their place weights of others that come up as soon as they are
/// updated, so that fewer do when forward wants them; with clipping, behind the norm.
StreamDraft StreamSearch::best_renewed(StreamDraft draft) {
  constexpr std::array kWholeShares = {1.0, 0.75, 0.5};
  constexpr std::array kRenewedShares = {1.0, 0.75};
  if (!may_renew_at_once(draft.schedule)) return draft;
  const StreamSchedule& chosen = draft.schedule;
  std::vector<StreamSchedule> schedules;
  for (const double share : kWholeShares) {
    HomeCounts whole = whole_blocks(chosen.on_devices);
    whole.all = static_cast<int>(whole.all * share);
    const Fill fill = fill_of(chosen, draft, Fills::sums, whole);
    const std::optional<int> kept = most_kept(fill);
    if (!kept) continue;
    const auto with_renewed = [&](int count) {
      HomeCounts counts = whole;
      counts.renewed = count;
      StreamSchedule schedule = with(fill, *kept, counts);
      schedule.updates_ahead = 0;
      return schedule;
    };
    const int most = largest(DeviceHomes(chain_, fill.visits).most().weights,
                             [&](int count) { return is_roomy(with_renewed(count)); });
    for (const double part : kRenewedShares) {
      const int renewed = static_cast<int>(most * part);
      if (renewed > 0) schedules.push_back(with_renewed(renewed));
    }
  }
  return fastest_of(std::move(draft), schedules);
}

void StreamSearch::look_ahead(std::span<const Fill> fills, Micros faster_than) {
  std::vector<StreamSchedule> schedules;
  for (const Fill& fill : fills) {
    if (auto full = filled(fill)) schedules.push_back(std::move(*full));
  }
  look_ahead(schedules.size(),
             [&](std::size_t i, Sights& sights) { peek(schedules[i], faster_than, sights); });
}

/// Where the fill is nearly as fast as the draft: with some more whole blocks or fewer, and with
/// less of what is kept.
StreamDraft StreamSearch::best_fill(StreamDraft draft, Fill fill) {
  constexpr int kPart = 8;
  constexpr std::array kShares = {1.0, 0.875, 0.75, 0.5};
  constexpr int kPatience = 2;
  const int all = fill.whole.all;
  const int unit = 1 + all / kPart;
  const Micros limit = draft.step() * kPromisingFill;
  bool is_promising = false;
  std::vector<Fill> fills;
  for (const int by : {0, unit, 2 * unit, -unit, -2 * unit}) {
    fill.whole.all = all + by;
    if (fill.whole.all >= 0) fills.push_back(fill);
  }
  // Large stages pass only where little is left to pass, so the first that fits may have more.
  for (std::size_t i = 0; i < fills.size(); ++i) {
    if (fills[i].whole.all < all && !is_promising) continue;
    const std::optional<int> most = most_kept(fills[i]);
    if (!most) continue;
    int failed = 0;
    for (const double share : kShares) {
      const Micros before = draft.step();
      Attempt attempt = try_schedule(filled(fills[i], static_cast<int>(*most * share)),
                                     is_promising ? before : limit);
      if (!is_promising && !attempt.draft) return draft;
      if (!is_promising) look_ahead(std::span<const Fill>(fills).subspan(i + 1), before);
      is_promising = true;
      draft = faster(std::move(draft), std::move(attempt.draft));
      failed = draft.step() < before ? 0 : failed + 1;
      if (failed == kPatience || *most == 0) break;
    }
  }
  return draft;
}

/// Stages of the draft as they are, which may be too large for two to be there at once: as many
/// whole blocks as fit, then what forward keeps.
void StreamSearch::crowded_homes(StreamDraft draft) {
  constexpr double kPromising = 1.03;  // of the best step: rings gain no more, as a rule
  draft = passes_.run(pass_name::kHomes, std::move(draft),
                      [&](StreamDraft given) { return most_at_home(std::move(given)); });
  if (question_.options.activations == ActivationRule::automatic) {
    draft = with_policies(std::move(draft), {Leaving::for_dram, Rings::roomy});
  }
  draft = passes_.run(pass_name::kHomes, std::move(draft),
                      [&](StreamDraft given) { return most_at_home(std::move(given)); });
  if (draft.step() < fastest_ * kPromising) refine_rings_and_updates(std::move(draft));
}

/// As many whole blocks as fit beside rings of so many slots, with some more of them where no
/// embedding is, in the draft's visits and in regular ones: the fastest of each number of visits
/// (of large plans, of all) if one is near the draft. What is counted out by is_roomy() leaves room
/// for any two neighbouring visits, and so holds fewer.
std::vector<StreamDraft> StreamSearch::packed_homes(const StreamDraft& draft, int slots) {
  constexpr double kPromising = 1.2;  // of the best step: with its own rings it gains much
  std::vector<StreamSchedule> visits = regular_;
  for (const StreamSchedule& each : even_) visits.push_back(staged(each));
  visits.push_back(draft.schedule);
  std::vector<StreamSchedule> spreads;
  for (StreamSchedule& each : visits) {
    StreamSchedule bare = with_slots(std::move(each), slots);
    bare.policies = {};
    const HomeCounts most = DeviceHomes(chain_, bare).most();
    for (const int elsewhere : kElsewhere) {
      if (elsewhere > most.all_elsewhere) break;
      bare.on_devices = {.all = most.all, .all_elsewhere = elsewhere};
      spreads.push_back(bare);
    }
  }
  const auto pack = [](StreamSchedule spread, const auto& fits) {
    largest(spread.on_devices.all, [&](int all) {
      spread.on_devices.all = all;
      return fits(spread);
    });
  };
  const Micros limit = draft.step() * kPromising;
  look_ahead(spreads.size(), [&](std::size_t i, Sights& sights) {
    pack(spreads[i], [&](const StreamSchedule& tried) {
      return !lacks_device_memory(tried) && !peek(tried, limit, sights);
    });
  });
  std::map<std::size_t, StreamDraft> packed;  // by number of visits; those of large plans under 0
  for (const StreamSchedule& spread : spreads) {
    pack(spread, [&](const StreamSchedule& tried) {
      if (lacks_device_memory(tried)) {
        wants_memory_ = true;
        return false;
      }
      Attempt attempt = try_schedule(tried, limit);
      if (attempt.draft) {
        const std::size_t kind = has_short_plans() ? tried.visits.size() : 0;
        const auto [known, is_new] = packed.try_emplace(kind, *attempt.draft);
        if (!is_new) known->second = faster(std::move(known->second), std::move(attempt.draft));
      }
      return !attempt.lacking;
    });
  }
  std::vector<StreamDraft> found;
  for (auto& [kind, one] : packed) found.push_back(std::move(one));
  return found;
}

/// With nothing at home but whole blocks, as many as the devices hold.
StreamSchedule StreamSearch::packed(StreamSchedule schedule) const {
  schedule.on_devices = whole_blocks(schedule.on_devices);
  int& all = schedule.on_devices.all;
  all = largest(DeviceHomes(chain_, schedule).most().all, [&](int tried) {
    all = tried;
    return !lacks_device_memory(schedule);
  });
  return schedule;
}

/// From few whole blocks to many, then sums, as far as they fit and make the step shorter than
/// that; then what is between the last that fit and the first that did not.
StreamDraft StreamSearch::most_at_home(StreamDraft draft) {
  constexpr int kPatience = 2;
  const HomeCounts most = DeviceHomes(chain_, draft.schedule).most();
  for (const auto kind : {&HomeCounts::all, &HomeCounts::sums}) {
    StreamSchedule schedule = draft.schedule;
    int& count = schedule.on_devices.*kind;
    int fits = count;
    int too_many = most.*kind + 1;
    for (int failed = 0; failed < kPatience && fits + 1 < too_many;) {
      const int next = too_many > most.*kind ? fits + 1 + fits / 2 : (fits + too_many) / 2;
      count = std::min(next, most.*kind);
      const Micros before = draft.step();
      Attempt attempt = try_schedule(schedule, before);
      if (attempt.lacking) {
        too_many = count;
        continue;
      }
      fits = count;
      draft = faster(std::move(draft), std::move(attempt.draft));
      failed = draft.step() < before ? 0 : failed + 1;
    }
  }
  return draft;
}

/// Some blocks more or fewer of each kind, by ever smaller steps.
StreamDraft StreamSearch::neighbouring_homes(StreamDraft draft) {
  const HomeCounts most = DeviceHomes(chain_, draft.schedule).most();
  for (const auto kind : {&HomeCounts::all, &HomeCounts::sums, &HomeCounts::weights,
                          &HomeCounts::all_elsewhere, &HomeCounts::sums_elsewhere}) {
    for (int by = std::max(1, draft.schedule.on_devices.*kind / 4); by > 0; by /= 2) {
      const int chosen = draft.schedule.on_devices.*kind;
      std::vector<StreamSchedule> neighbours;
      for (const int count : {chosen - by, chosen + by}) {
        if (count < 0 || count > most.*kind) continue;
        neighbours.push_back(draft.schedule);
        neighbours.back().on_devices.*kind = count;
      }
      draft = fastest_of(std::move(draft), neighbours);
    }
  }
  if (has_short_plans()) beside_climb([&] { exchange_homes(draft); });
  return draft;
}

/// A block more or fewer on the device of the first block, and as many as before on all others;
/// with rings of its own, since those of the draft may not fit what was asked for beside it.
void StreamSearch::exchange_homes(const StreamDraft& draft) {
  using Count = int HomeCounts::*;
  constexpr std::array<std::pair<Count, Count>, 2> kKinds = {
      {{&HomeCounts::all, &HomeCounts::all_elsewhere},
       {&HomeCounts::sums, &HomeCounts::sums_elsewhere}}};
  if (draft.schedule.devices == 1) return;
  for (const auto& [everywhere, elsewhere] : kKinds) {
    for (const int by : {-1, 1}) {
      StreamSchedule tried = draft.schedule;
      tried.on_devices.*everywhere += by;
      tried.on_devices.*elsewhere -= by;
      const bool exists = tried.on_devices.*everywhere >= 0 && tried.on_devices.*elsewhere >= 0;
      if (!exists) continue;
      Attempt attempt = try_schedule(tried, draft.step());
      if (attempt.draft) best_rings(std::move(*attempt.draft));
    }
  }
}

StreamSearch::Fill StreamSearch::fill_of(StreamSchedule visits, const StreamDraft& draft,
                                         Fills rest, const HomeCounts& whole) const {
  visits = with_slots(std::move(visits), kRoomyRing);
  visits.saved_slots = StreamSchedule{}.saved_slots;
  visits.updates_as_landed = draft.schedule.updates_as_landed;
  visits.updates_ahead = draft.schedule.updates_ahead;
  visits.again_from = draft.schedule.again_from;
  if (rest == Fills::sums_and_leave) visits = with_roomy_saved_ring(std::move(visits));
  return {visits, kept_slots(chain_, visits), rest, whole};
}

bool StreamSearch::may_keep() const {
  return question_.options.activations == ActivationRule::automatic &&
         passes_.has(pass_name::kActivations);
}

/// The fill's whole blocks, or as many of them as fit: in other visits a device may have larger
/// ones.
int StreamSearch::most_whole(const Fill& fill) {
  const int most = std::min(fill.whole.all, DeviceHomes(chain_, fill.visits).most().all);
  return largest(most, [&](int all) {
    HomeCounts counts = fill.whole;
    counts.all = all;
    return is_roomy(with(fill, 0, counts));
  });
}

/// How many blocks can keep what backward needs beside so many whole blocks and room for any two
/// neighbouring visits. Nothing where not even the whole blocks fit.
std::optional<int> StreamSearch::most_kept(const Fill& fill) {
  const bool may_leave = may_keep() || fill.rest != Fills::sums_and_leave;
  const HomeCounts most = DeviceHomes(chain_, fill.visits).most();
  if (!may_leave || fill.whole.all > most.all) return std::nullopt;
  if (fill.whole.all_elsewhere > most.all_elsewhere) return std::nullopt;
  if (!is_roomy(with(fill, 0, fill.whole))) return std::nullopt;
  const int blocks = may_keep() ? static_cast<int>(chain_.size()) : 0;
  return largest(blocks, [&](int kept) { return is_roomy(with(fill, kept, fill.whole)); });
}

/// What forward keeps and the sums that wait share a region (shared_region.h): where the one fits,
/// much of the other does, too. So they are counted out together; weights that stay take what is
/// left, or what sums would.
StreamSchedule StreamSearch::filled(const Fill& fill, int kept) {
  const HomeCounts most = DeviceHomes(chain_, fill.visits).most();
  HomeCounts counts = fill.whole;
  const auto most_of = [&](int HomeCounts::*kind) {
    counts.*kind = largest(most.*kind, [&](int count) {
      HomeCounts tried = counts;
      tried.*kind = count;
      return is_roomy(with(fill, kept, tried));
    });
  };
  if (fill.rest != Fills::weights) {
    most_of(&HomeCounts::sums);
    most_of(&HomeCounts::sums_elsewhere);
  }
  most_of(&HomeCounts::weights);
  return with(fill, kept, counts);
}

std::optional<StreamSchedule> StreamSearch::filled(const Fill& fill) {
  const std::optional<int> most = most_kept(fill);
  return most ? std::optional(filled(fill, *most)) : std::nullopt;
}

StreamSchedule StreamSearch::with(const Fill& fill, int kept, const HomeCounts& counts) const {
  StreamSchedule schedule = fill.visits;
  schedule.on_devices = counts;
  const bool leaves = fill.rest == Fills::sums_and_leave;
  schedule.policies = stay_and_leave(chain_, fill.slots, question_.micro_batches,
                                     static_cast<std::size_t>(kept), leaves ? chain_.size() : 0);
  return schedule;
}

}  // namespace ferry
