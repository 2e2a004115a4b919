// The search through device memory: what is tried on a rung, and where the search ends.
#include <algorithm>
#include <optional>
#include <ranges>
#include <utility>
#include <vector>

#include "base/check.h"
#include "planner/costs/queues.h"
#include "planner/strategies/homes.h"
#include "planner/strategies/streaming.h"
#include "planner/write/allocate.h"
#include "planner/write/stream_plan.h"
#include "spec/pass_names.h"

namespace ferry {
namespace {

// Nothing that is shorter by more is taken in a search of single blocks: so what starts from much
// longer steps is left out.
constexpr double kMostGain = 0.2;
constexpr double kMostGainOfOneDevice = 0.08;  // 4.6 % was the most in a hundred searches
constexpr double kMostGainOnDrives = 0.065;    // there are several starts
constexpr double kMostGainOfFilling = 0.05;
// It is searched a second time where devices have p2p; 3 to 5 % were gained there.
constexpr double kMostGainStraight = 0.1;
// Single blocks gain less beside weights that come up at once, and would take as long again.
constexpr double kMostGainOfRenewed = 0.05;
constexpr double kWorthRenewing = 0.98;  // of the step without
constexpr double kWorthPacking = 0.97;   // likewise: little is as often lost again on later rungs

/// Single blocks are searched from the best start of the rungs below, too, where it is faster than
/// the rung's own: it has the memory between them to fill.
void carry_up(std::optional<StreamDraft>& below, std::vector<StreamDraft>& starts) {
  if (starts.empty()) return;
  const auto fastest = std::ranges::min_element(starts, {}, &StreamDraft::step);
  if (below && below->step() < fastest->step()) {
    starts.push_back(*below);
  } else {
    below = *fastest;
  }
}

}  // namespace

StreamDraft StreamSearch::climb(const Offers& offers) {
  if (best_ && tires_at_once()) return *best_;
  if (asked_.any_plan) {
    stand_on(rungs().front().memory);
    return least();
  }
  std::optional<StreamDraft> draft;  // the best of this rung and those below
  std::optional<StreamDraft> sent;   // likewise, with what passes between devices going straight
  std::optional<StreamDraft> held;   // likewise, with rings that hold every block's input
  std::optional<StreamDraft> below;  // the best start of single blocks so far
  std::optional<StreamDraft> below_in_part;  // likewise, with states in DRAM in part
  std::vector<Found> bests;                  // by rung; of some several
  std::vector<Found> filling;                // likewise, with memory left
  std::vector<Found> straights;              // likewise, of `sent`
  std::vector<Found> renewed;                // likewise, with weights that come up at once
  const auto improve = [&](auto pass) {
    const Micros before = draft->step();
    draft = pass(std::move(*draft));
    return draft->step() < before;
  };
  const std::vector<MemoryRung> all_rungs = rungs();
  for (const MemoryRung& rung : all_rungs) {
    stand_on(rung.memory);
    wants_memory_ = false;
    bool has_more = true;
    if (rung.is_landing) {
      has_more = offer_all(offers);
      StreamDraft first = offered_.best();
      std::optional<StreamDraft> found = refined();
      offer_for_homes(found->schedule);
      // It may be the answer (best_), but with more memory rarely leads to the next one.
      if (homes_) crowded_homes(std::move(first));
      draft = draft ? faster(std::move(*draft), std::move(found)) : std::move(found);
    }
    const auto neighbours = [&](StreamDraft given) {
      return neighbouring(std::move(given), rung.is_landing);
    };
    const auto again = [&](StreamDraft given) {
      return best_again(std::move(given), rung.is_landing);
    };
    if (homes_ && improve(neighbours)) has_more = true;
    if (homes_ && rung.is_landing) {
      for (StreamDraft& packed : packed_homes(*draft, kLeastActivationSlots)) {
        packed = again(neighbours(std::move(packed)));
        if (packed.step() > draft->step() * kWorthPacking) continue;
        draft = std::move(packed);
        has_more = true;
      }
    }
    const bool may_map = rung.is_landing || has_short_plans();
    if (offers.mapping && may_map && improve(offers.mapping)) has_more = true;
    const auto ahead = [&](StreamDraft given) { return best_ahead(std::move(given)); };
    if (rung.is_landing && improve(ahead)) has_more = true;
    if (improve(again)) has_more = true;
    // Where the device computes most of the time rungs differ little, and single blocks gain 1 %;
    // but a step of few blocks may end far from its best.
    if (rung.is_landing || !question_.norm_first || is_small_step(asked_, chain_)) {
      std::vector<StreamDraft> from = starts(*draft);
      carry_up(below, from);
      std::vector<StreamDraft> others = in_part(from);
      carry_up(below_in_part, others);
      for (StreamDraft& start : from) bests.push_back({rung.memory, std::move(start)});
      for (StreamDraft& start : others) bests.push_back({rung.memory, std::move(start)});
      for (const Bytes memory : between(all_rungs, rung)) filling.push_back({memory, *draft});
    }
    if (may_hold_inputs(*draft)) {
      held = holding_inputs(*draft, std::move(held), rung.is_landing);
      if (held && held->step() < draft->step()) bests.push_back({rung.memory, *held});
    }
    const auto renew = [&](const StreamDraft& given) {
      StreamDraft renewing = with_renewals(given);
      if (renewing.step() >= given.step() * kWorthRenewing) return;
      renewed.push_back({rung.memory, std::move(renewing)});
    };
    renew(*draft);
    if (auto fewer = with_states_out(*draft)) bests.push_back({rung.memory, std::move(*fewer)});
    // It may be the answer (best_). The climb goes on from what goes through the host, so that all
    // that is tried without p2p is tried with it.
    if (sends_ && draft->schedule.devices > 1) sent = straight(*draft, std::move(sent));
    if (sent) {
      sent = passes_.run(pass_name::kP2p, std::move(*sent),
                         [&](StreamDraft given) { return refined_straight(std::move(given)); });
      straights.push_back({rung.memory, *sent});
      renew(*sent);
    }
    if (best_ && (best_by_rung_.empty() || best_->step() < best_by_rung_.back().step())) {
      best_by_rung_.push_back(*best_);
    }
    if (!has_more && !wants_memory_) break;
  }
  if (homes_ && has_short_plans()) {
    const double most_here = gains_little() ? kMostGainOfOneDevice : kMostGain;
    search_blocks(bests, needs_drives() ? kMostGainOnDrives : most_here);
    search_blocks(filling, kMostGainOfFilling);
    search_blocks(straights, kMostGainStraight);
    search_blocks(renewed, kMostGainOfRenewed);
  }
  FERRY_CHECK(best_.has_value(), "what fits with least memory was tried");
  return *best_;
}

/// Whether a search of single blocks gains a few per cent at most. Steps of few blocks gain more.
bool StreamSearch::gains_little() const {
  return device_count() == 1 && !is_small_step(asked_, chain_);
}

/// What start() has seen to fit, on the rung in progress.
StreamDraft StreamSearch::least() {
  Attempt attempt = try_schedule(least_memory_, {});
  FERRY_CHECK(attempt.draft.has_value(), "rungs hold the schedule of least memory");
  return std::move(*attempt.draft);
}

bool StreamSearch::needs_drives() const { return as_asked(least_memory_).uses_drives(); }

bool StreamSearch::is_short_of_dram() const { return needed_.all > host_limit(question_); }

/// Between a rung and the next one, no more than a device has: there the climb's best of this rung
/// has memory left, in which single blocks find room.
std::vector<Bytes> StreamSearch::between(std::span<const MemoryRung> rungs,
                                         const MemoryRung& rung) const {
  constexpr int kQuarters = 4;
  std::vector<Bytes> sizes;
  const MemoryRung* const next = &rung + 1;
  if (next == rungs.data() + rungs.size() || needs_drives()) return sizes;
  const Bytes most = most_device_memory();
  for (int part = 1; part < kQuarters; ++part) {
    const Bytes memory = rung.memory + Bytes{(next->memory - rung.memory).count * part / kQuarters};
    if (memory <= most) sizes.push_back(memory);
  }
  return sizes;
}

Bytes StreamSearch::most_device_memory() const {
  Bytes most;
  for (int d = 0; d < device_count(); ++d) most = std::max(most, device_limit(asked_, d));
  return most;
}

/// Evaluation has one: what it needs follows from training's plan, beside which it runs. Where
/// nothing can be at home on devices, every rung is a landing.
std::vector<MemoryRung> StreamSearch::rungs() {
  const Bytes most = most_device_memory();
  if (asked_.mode != PlanMode::train) return {{most, true}};
  look_at_least_plan();
  int per_doubling = has_short_plans() ? 8 : tasks_ <= kLargePlan ? 4 : 2;
  // A byte of it spares the drives two. Jobs that need none climb as if there were none.
  if (has_short_plans() && needs_drives()) per_doubling *= 2;
  if (!homes_) per_doubling = std::max(2, per_doubling / 2);
  std::vector<MemoryRung> rungs = memory_rungs(slot_size(least_peak_), most, per_doubling);
  for (MemoryRung& rung : rungs) rung.is_landing = rung.is_landing || !homes_;
  return rungs;
}

/// Before climb() has changed that schedule.
void StreamSearch::look_at_least_plan() {
  if (tasks_ > 0) return;
  stand_on(Bytes{});
  const Plan plan = write(as_asked(least_memory_));
  tasks_ = std::ssize(plan.tasks);
  least_peak_ = device_peak(plan);
}

std::ptrdiff_t StreamSearch::least_tasks() {
  look_at_least_plan();
  return tasks_;
}

std::optional<StreamDraft> StreamSearch::try_beforehand(std::span<const StreamDraft> drafts) {
  constexpr double kClose = 1.01;  // others would not be the fastest here, either
  const std::ptrdiff_t written = written_;
  is_beforehand_ = true;
  beside_climb([&] {
    for (const StreamDraft& draft : drafts | std::views::reverse) {
      if (draft.step() > drafts.back().step() * kClose) break;
      stand_on(draft.rung);
      const std::optional<Micros> limit = best_ ? std::optional(best_->step()) : std::nullopt;
      const auto with_ring = [&](int slots) {
        return try_schedule(with_slots(draft.schedule, slots), limit).lacking;
      };
      const int slots = draft.schedule.activation_slots;
      const auto lacking = with_ring(slots);  // a little, by rounding
      if (lacking && lacking->kind == PlaceKind::device) with_ring(next_length(slots, *lacking));
    }
  });
  is_beforehand_ = false;
  tried_.clear();  // the climb begins on a lower rung
  written_ = written;
  return best_;
}

/// Devices that have the most get the rung's memory, be it more than asked; others at most theirs.
void StreamSearch::stand_on(Bytes rung) {
  rung_ = rung;
  seen_ahead_.clear();
  Bytes most;
  for (int d = 0; d < device_count(); ++d) {
    most = std::max(most, device_budget(asked_, d).bytes);
  }
  question_.device_budgets.clear();
  for (int d = 0; d < device_count(); ++d) {
    Budget budget = device_budget(asked_, d);
    budget.bytes = budget.bytes == most ? rung : std::min(budget.bytes, rung);
    question_.machine.devices[d].memory = budget.bytes;
    question_.device_budgets.push_back(std::move(budget));
  }
}

bool StreamSearch::offer_all(const Offers& offers) {
  offered_.take();
  regular_.clear();
  if (is_small_step(asked_, chain_)) regular_.push_back(least_memory_);
  ideals_.clear();
  StreamDraft draft = least();
  // A search that ends early keeps room for several neighbours: what is best for a schedule that
  // recomputes all may be too little for one that does not.
  if (tasks_ <= kLargePlan && !std::exchange(is_staged_, true)) {
    draft = restaged(std::move(draft));
    least_memory_ = draft.schedule;
  }
  offered_.offer(std::move(draft));
  return offers.schedules();
}

StreamDraft StreamSearch::restaged(StreamDraft draft) {
  return passes_.run(pass_name::kUpdates, std::move(draft),
                     [&](StreamDraft given) { return best_staging(std::move(given)); });
}

/// What single blocks are searched from: the draft, or where something rests on the drives others
/// with different blocks at home. What passes to updates has room by their homes: where embeddings
/// stay, half as much is enough. None where single blocks are not searched.
std::vector<StreamDraft> StreamSearch::starts(const StreamDraft& draft) {
  if (!homes_ || !has_short_plans()) return {};
  std::vector<StreamDraft> starts = dense_homes(draft);
  const auto is_faster = [&](const StreamDraft& dense) { return dense.step() < draft.step(); };
  if (std::ranges::none_of(starts, is_faster)) starts.push_back(draft);
  for (std::size_t i = 0, count = starts.size(); i < count; ++i) {
    StreamDraft waiting = with_waiting(starts[i]);
    if (waiting.step() < starts[i].step()) starts.push_back(std::move(waiting));
  }
  beside_climb([&] {
    for (StreamDraft& start : starts) start = restaged(std::move(start));
  });
  return starts;
}

/// Without clipping, the starts with states in DRAM in part, from which sums may wait there. They
/// are searched beside the others, since a search of single blocks that draws otherwise ends
/// elsewhere. (With clipping 0.2 % was gained in up to twice the time.)
std::vector<StreamDraft> StreamSearch::in_part(std::span<const StreamDraft> starts) {
  if (question_.clips) return {};
  std::vector<StreamDraft> found;
  for (const StreamDraft& start : starts) {
    StreamDraft parted = with_states_in_part(start);
    const bool is_as_fast = parted.step() <= start.step();
    if (parted.schedule.parts_states && is_as_fast) found.push_back(std::move(parted));
  }
  return found;
}

/// The draft, or a faster one whose weights come up as soon as they are updated.
StreamDraft StreamSearch::with_renewals(StreamDraft draft) {
  if (!homes_) return draft;
  beside_climb([&] {
    draft = passes_.run(pass_name::kUpdates, std::move(draft),
                        [&](StreamDraft given) { return best_renewed(std::move(given)); });
  });
  return draft;
}

/// Whether the inputs of all blocks would take so much of the step on the links that rings which
/// hold them may be worth more than what is at home.
bool StreamSearch::may_hold_inputs(const StreamDraft& draft) const {
  constexpr double kWorthHolding = 0.1;
  if (!homes_ || !has_short_plans()) return false;
  const double inputs =
      as_double(chain_.activation) * static_cast<double>(chain_.size()) * question_.micro_batches;
  return inputs / joint_rates(question_).up > draft.step().seconds() * kWorthHolding;
}

/// Rings for the inputs of all blocks, and as many whole blocks as fit beside them, or what went
/// before on the rung below. It may be the answer (best_); what the climb goes on from has shorter
/// rings, so that all that is tried without these is tried with them.
std::optional<StreamDraft> StreamSearch::holding_inputs(const StreamDraft& draft,
                                                        std::optional<StreamDraft> held,
                                                        bool lands) {
  beside_climb([&] {
    if (held) held = neighbouring(std::move(*held), lands);
    for (StreamDraft& packed : packed_homes(draft, all_activations())) {
      packed = neighbouring(std::move(packed), lands);
      if (!held || packed.step() < held->step()) held = std::move(packed);
    }
  });
  return held;
}

/// With a little more memory than where the draft was the best.
StreamDraft StreamSearch::neighbouring(StreamDraft draft, bool lands) {
  draft = passes_.run(pass_name::kHomes, std::move(draft),
                      [&](StreamDraft given) { return more_at_home(std::move(given)); });
  if (lands) return refine_rings_and_updates(std::move(draft));
  return passes_.run(pass_name::kRings, std::move(draft),
                     [&](StreamDraft given) { return neighbouring_rings(std::move(given)); });
}

}  // namespace ferry
