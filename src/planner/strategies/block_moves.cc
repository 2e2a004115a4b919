#include "planner/strategies/block_moves.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "planner/strategies/device_homes.h"

namespace ferry {
namespace {

constexpr int kDraws = 20;  // of two blocks that differ, or of one that has something to give

// The device of the block's backward.
int device_of(const StreamSchedule& schedule, int block) {
  const auto runs = [&](const StageVisit& visit) {
    return visit.direction != Direction::forward && contains(visit, block);
  };
  const auto at = std::ranges::find_if(schedule.visits, runs);
  return at == schedule.visits.end() ? -1 : at->device;
}

ActivationPolicies those_that_can_keep(const Chain& chain, const StreamSchedule& schedule) {
  return keep_all(chain, kept_slots(chain, schedule));
}

}  // namespace

BlockMoves::BlockMoves(const Chain& chain, May may, std::uint64_t seed)
    : chain_(chain), may_(may), random_(seed) {}

StreamSchedule BlockMoves::neighbour(StreamSchedule here) {
  const int changes = 1 + (one_in(3) ? 1 : 0) + (one_in(6) ? 1 : 0);
  for (int i = 0; i < changes; ++i) change(here);
  return here;
}

void BlockMoves::change(StreamSchedule& schedule) {
  using Change = void (BlockMoves::*)(StreamSchedule&);
  constexpr int kWithoutDrives = 12;  // the first; such jobs draw as if there were no others
  constexpr std::array<Change, kWithoutDrives + 5> kChanges = {
      &BlockMoves::change_homes,      &BlockMoves::make_whole_or_not,
      &BlockMoves::make_whole_or_not, &BlockMoves::exchange_homes,
      &BlockMoves::exchange_homes,    &BlockMoves::change_inputs,
      &BlockMoves::change_inputs,     &BlockMoves::change_policies,
      &BlockMoves::exchange_policies, &BlockMoves::resize_ring,
      &BlockMoves::change_ahead,      &BlockMoves::move_border,
      &BlockMoves::exchange_leaving,  &BlockMoves::exchange_leaving,
      &BlockMoves::resize_staging,    &BlockMoves::wait_in_place_of_home,
      &BlockMoves::change_waiting};
  const bool may_wait = may_.sums || schedule.parts_states;
  const int of_drives = static_cast<int>(kChanges.size()) - kWithoutDrives - (may_wait ? 0 : 1);
  const int kinds = kWithoutDrives + (may_.drives ? of_drives : 0);
  (this->*kChanges[random_.below(kinds)])(schedule);
}

/// One block, or up to eight of its device that follow each other there.
std::vector<int> BlockMoves::some_blocks(const StreamSchedule& schedule) {
  const int first = any_block();
  const std::size_t most = std::size_t{1} << std::max(0, random_.below(6) - 2);
  const int device = device_of(schedule, first);
  std::vector<int> blocks;
  for (int b = first; b < static_cast<int>(chain_.size()) && blocks.size() < most; ++b) {
    if (device_of(schedule, b) == device) blocks.push_back(b);
  }
  return blocks;
}

void BlockMoves::set_home(StreamSchedule& schedule, int block, BlockHome home) const {
  DeviceHomes(chain_, schedule).set(schedule.chosen_homes, block, home);
}

void BlockMoves::change_homes(StreamSchedule& schedule) {
  constexpr std::array<BlockHome, 6> kHomes = {BlockHome{},
                                               {.on_device = true},
                                               {.weight_stays = true},
                                               {.sum_waits = true},
                                               {.weight_stays = true, .sum_waits = true},
                                               {.weight_stays = true, .renews_at_once = true}};
  const int kinds = static_cast<int>(kHomes.size()) - (may_.renewals ? 0 : 1);
  BlockHome home = kHomes[random_.below(kinds)];
  for (const int b : some_blocks(schedule)) {
    home.input_stays = schedule.chosen_homes[b].input_stays;
    home.sum_waits_in_dram = schedule.chosen_homes[b].sum_waits_in_dram;
    set_home(schedule, b, home);
  }
}

void BlockMoves::make_whole_or_not(StreamSchedule& schedule) {
  const int block = any_block();
  const BlockHome& now = schedule.chosen_homes[block];
  set_home(schedule, block,
           {.on_device = !now.on_device,
            .sum_waits_in_dram = now.sum_waits_in_dram,
            .input_stays = now.input_stays});
}

void BlockMoves::exchange_homes(StreamSchedule& schedule) {
  for (int draw = 0; draw < kDraws; ++draw) {
    const int a = any_block(), b = any_block();
    BlockHome of_a = schedule.chosen_homes[b], of_b = schedule.chosen_homes[a];
    std::swap(of_a.input_stays, of_b.input_stays);
    if (of_a.on_device == of_b.on_device && of_a.weight_stays == of_b.weight_stays &&
        of_a.sum_waits == of_b.sum_waits && of_a.sum_waits_in_dram == of_b.sum_waits_in_dram &&
        of_a.renews_at_once == of_b.renews_at_once) {
      continue;
    }
    set_home(schedule, a, of_a);
    set_home(schedule, b, of_b);
    return;
  }
}

/// Of some blocks; or of all that follow another in their stage, so that only what passes between
/// stages does.
void BlockMoves::change_inputs(StreamSchedule& schedule) {
  const bool stay = one_in(2);
  const auto change = [&](int block) {
    BlockHome home = schedule.chosen_homes[block];
    home.input_stays = stay;
    set_home(schedule, block, home);
  };
  if (!one_in(4)) {
    for (const int b : some_blocks(schedule)) change(b);
    return;
  }
  for (const StageVisit& visit : schedule.visits) {
    for (int b = visit.first + 1; b < visit.end; ++b) change(b);
  }
}

void BlockMoves::change_policies(StreamSchedule& schedule) {
  if (!may_.policies) return;
  constexpr std::array kPolicies = {ActivationPolicy::keep, ActivationPolicy::swap_to_host,
                                    ActivationPolicy::recompute};
  const ActivationPolicy policy = kPolicies[random_.below(static_cast<int>(kPolicies.size()))];
  const ActivationPolicies can = those_that_can_keep(chain_, schedule);
  for (const int b : some_blocks(schedule)) {
    if (can[b] == ActivationPolicy::keep) schedule.policies[b] = policy;
  }
}

void BlockMoves::exchange_policies(StreamSchedule& schedule) {
  if (!may_.policies) return;
  const ActivationPolicies can = those_that_can_keep(chain_, schedule);
  for (int draw = 0; draw < kDraws; ++draw) {
    const int a = any_block(), b = any_block();
    if (schedule.policies[a] == schedule.policies[b] || can[a] != can[b]) continue;
    std::swap(schedule.policies[a], schedule.policies[b]);
    return;
  }
}

int BlockMoves::resized(int count, int least) {
  const int by = 1 + random_.below(std::max(1, count / 4));
  return std::max(least, one_in(2) ? count + by : count - by);
}

void BlockMoves::resize_ring(StreamSchedule& schedule) {
  if (one_in(3)) {
    schedule.saved_slots = resized(schedule.saved_slots, 1);
  } else {
    schedule.activation_slots = resized(schedule.activation_slots, kLeastActivationSlots);
  }
}

void BlockMoves::change_ahead(StreamSchedule& schedule) {
  const int blocks = static_cast<int>(chain_.size());
  int& ahead = schedule.updates_ahead;
  int& again = schedule.again_from;
  if (may_.ahead) ahead = std::min(blocks, resized(ahead, 0));
  if (may_.again) again = std::min(blocks - 1, resized(again, 0));
}

/// By one block; no stage gets empty by it.
void BlockMoves::move_border(StreamSchedule& schedule) {
  if (!may_.borders) return;
  std::vector<int> borders = {0};
  for (const StageVisit& visit : schedule.visits) borders.push_back(visit.end);
  std::ranges::sort(borders);
  const auto repeated = std::ranges::unique(borders);
  borders.erase(repeated.begin(), repeated.end());
  if (borders.size() < 3) return;
  const int chosen = 1 + random_.below(static_cast<int>(borders.size()) - 2);
  const int from = borders[chosen];
  const int to = one_in(2) ? from + 1 : from - 1;
  if (to == borders[chosen - 1] || to == borders[chosen + 1]) return;
  for (StageVisit& visit : schedule.visits) {
    if (visit.end == from) visit.end = to;
    if (visit.first == from) visit.first = to;
  }
}

/// A block whose states rest on drives, and another's that DRAM has.
void BlockMoves::exchange_leaving(StreamSchedule& schedule) {
  if (schedule.leaving.empty()) schedule.leaving = deepest_first(chain_);
  for (int draw = 0; draw < kDraws; ++draw) {
    const BlockId a(any_block()), b(any_block());
    const BlockHome of_a = home_of_block(schedule, a), of_b = home_of_block(schedule, b);
    if (!of_a.state_on_drive || of_b.state_on_drive || of_b.on_device) continue;
    std::swap(*std::ranges::find(schedule.leaving, a), *std::ranges::find(schedule.leaving, b));
    return;
  }
}

/// A whole block leaves the device; in its place sums of some whose states rest on drives wait.
void BlockMoves::wait_in_place_of_home(StreamSchedule& schedule) {
  for (int draw = 0; draw < kDraws; ++draw) {
    const int block = any_block();
    const BlockHome& now = schedule.chosen_homes[block];
    if (!now.on_device) continue;
    set_home(schedule, block, {.input_stays = now.input_stays});
    break;
  }
  int sums = 1 + random_.below(4);
  for (int draw = 0; draw < kDraws && sums > 0; ++draw) {
    const int block = any_block();
    BlockHome home = schedule.chosen_homes[block];
    if (home.sum_waits || !home_of_block(schedule, BlockId(block)).state_on_drive) continue;
    home.sum_waits = true;
    set_home(schedule, block, home);
    --sums;
  }
}

void BlockMoves::resize_staging(StreamSchedule& schedule) {
  const int kind = random_.below(static_cast<int>(kStagingKinds.size()));
  if (kind == 0 && has_pieces(chain_) && one_in(2)) {
    schedule.staging.pieces = resized(schedule.staging.pieces, 0);
    return;
  }
  int& count = schedule.staging.*kStagingKinds[kind];
  count = resized(count, 1);
}

void BlockMoves::change_waiting(StreamSchedule& schedule) {
  if (may_.sums) {
    resize_sums_leaving(schedule);
  } else {
    wait_elsewhere(schedule);
  }
}

/// With clipping: how many sums that wait for the norm leave DRAM first.
void BlockMoves::resize_sums_leaving(StreamSchedule& schedule) {
  const int blocks = static_cast<int>(chain_.size());
  schedule.sums_leave_first = std::min(blocks, resized(schedule.sums_leave_first, 0));
}

/// Of a block whose states rest on drives: its sum waits no more, or does, on its device or in
/// DRAM.
void BlockMoves::wait_elsewhere(StreamSchedule& schedule) {
  for (int draw = 0; draw < kDraws; ++draw) {
    const int block = any_block();
    if (!home_of_block(schedule, BlockId(block)).state_on_drive) continue;
    BlockHome home = schedule.chosen_homes[block];
    const bool waits = home.sum_waits || home.sum_waits_in_dram;
    home.sum_waits = !waits && one_in(2);
    home.sum_waits_in_dram = !waits && !home.sum_waits;
    return set_home(schedule, block, home);
  }
}

void BlockMoves::give_way(StreamSchedule& schedule, int device) {
  for (int draw = 0; draw < kDraws; ++draw) {
    const int block = any_block();
    if (device_of(schedule, block) != device) continue;
    BlockHome home = schedule.chosen_homes[block];
    switch (random_.below(8)) {
      case 0:
        if (schedule.activation_slots <= kLeastActivationSlots) continue;
        --schedule.activation_slots;
        return;
      case 1:  // weights are less than whole blocks, which are worth more
        if (!home.weight_stays && (!home.on_device || !one_in(3))) continue;
        home.weight_stays = home.on_device = false;
        break;
      case 2:
      case 3:
        if (!home.sum_waits) continue;
        home.sum_waits = false;
        break;
      default:
        if (!may_.policies || schedule.policies[block] != ActivationPolicy::keep) continue;
        schedule.policies[block] =
            one_in(3) ? ActivationPolicy::recompute : ActivationPolicy::swap_to_host;
        return;
    }
    set_home(schedule, block, home);
    return;
  }
}

}  // namespace ferry
