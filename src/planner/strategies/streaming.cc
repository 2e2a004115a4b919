#include "planner/strategies/streaming.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "planner/costs/queues.h"
#include "planner/strategies/device_homes.h"
#include "planner/strategies/homes.h"
#include "planner/strategies/schedule_key.h"
#include "planner/write/allocate.h"
#include "planner/write/stream_plan.h"
#include "spec/drive_array.h"
#include "spec/pass_names.h"

namespace ferry {
namespace {

// Of a small step. What changes the order of schedules, be it a little more memory, then changes
// the answer less.
constexpr std::size_t kRunnersUp = 5;
constexpr std::size_t kSmallStep = 100;  // forward tasks
constexpr double kWorthTrying = 0.001;   // of the step: goes on where that much was gained

}  // namespace

StreamSearch::StreamSearch(const PlanQuestion& question, const Chain& chain, Homes homes)
    : asked_(question),
      question_(question),
      chain_(chain),
      passes_(question),
      homes_(homes == Homes::anywhere && question.mode == PlanMode::train &&
             passes_.has(pass_name::kHomes)),
      sends_(may_send(question) && passes_.has(pass_name::kP2p)),
      offered_(is_small_step(question, chain) ? 1 + kRunnersUp : 1) {}

// ---- what fits ----

std::optional<Shortage> StreamSearch::start(StreamSchedule least_memory,
                                            std::span<const StreamSchedule> even) {
  least_memory_ = with_slots(std::move(least_memory), kLeastActivationSlots);
  least_memory_.policies = asked_policies(least_memory_);
  even_.assign(even.begin(), even.end());
  const Attempt attempt = find_homes();
  tried_.clear();
  fastest_ = kNever;
  best_.reset();
  return attempt.lacking;
}

// ---- attempts ----

void StreamSearch::offer(std::vector<StreamSchedule> schedules) {
  std::vector<RingTry> tries;
  for (StreamSchedule& schedule : schedules) {
    tries.push_back({staged(std::move(schedule)), kRoomyRing});
  }
  look_ahead(tries, offered_.best().step());
  for (const RingTry& one : tries) {
    Attempt attempt = try_longest_ring(one, offered_.best().step());
    if (attempt.draft) offered_.offer(std::move(*attempt.draft));
  }
}

void StreamSearch::offer_for_homes(StreamSchedule regular) {
  regular_.push_back(staged(std::move(regular)));
}

// What a job asks of every block, wherever it can.
ActivationPolicies StreamSearch::asked_policies(const StreamSchedule& schedule) const {
  const ActivationRule rule = question_.options.activations;
  if (rule == ActivationRule::keep) return keep_all(chain_, kept_slots(chain_, schedule));
  if (rule == ActivationRule::swap) {
    return swap_all(chain_, kept_slots(chain_, schedule), ActivationPolicy::swap_to_host);
  }
  if (rule == ActivationRule::swap_to_drive && has_drives(question_.machine)) {
    return swap_all(chain_, kept_slots(chain_, schedule), ActivationPolicy::swap_to_drive);
  }
  return schedule.policies;
}

/// Whether the devices have room for it and for any two neighbouring visits.
bool StreamSearch::is_roomy(const StreamSchedule& schedule) {
  const auto [known, is_new] = roomy_needs_.try_emplace(key_before_rest(schedule));
  std::vector<Bytes>& needs = known->second;
  if (is_new) needs = needs_at_rest(schedule);
  for (int d = 0; d < schedule.devices; ++d) {
    if (needs[static_cast<std::size_t>(d)] <= device_limit(question_, d)) continue;
    wants_memory_ = true;
    return false;
  }
  return true;
}

// ---- refinement ----

/// The fastest of what was offered after the passes that all strategies have: policies of
/// activations (activation_policy.h), ring lengths, the order of updates. Of a small step the next
/// fastest pass through them too.
StreamDraft StreamSearch::refined() {
  Drafts<StreamDraft> finished(1);
  for (StreamDraft& draft : offered_.take()) finished.offer(refine_policies(std::move(draft)));
  return std::move(finished.take().front());
}

// Policies are compared at equal rings, and each kind's best again with its best rings: so no
// question is answered worse for having drives to swap to, or memory for longer rings.
StreamDraft StreamSearch::refine_policies(StreamDraft draft) {
  std::vector<StreamDraft> branches;
  branches.push_back(std::move(draft));
  const auto branch = [&](std::size_t from, PolicyTrials trials) {
    StreamDraft best = with_policies(branches[from], trials);
    if (best.step() < branches[from].step()) branches.push_back(std::move(best));
  };
  if (question_.options.activations == ActivationRule::automatic) {
    branch(0, {Leaving::for_dram, Rings::roomy});
    if (branches.size() > 1) branches.erase(branches.begin());
    const std::size_t in_dram = 0;
    branch(in_dram, {Leaving::for_dram, Rings::mixed});
    if (has_drives(question_.machine)) {
      branch(in_dram, {Leaving::for_drives, Rings::roomy});
      branch(branches.size() - 1, {Leaving::for_drives, Rings::mixed});
    }
  }
  Drafts<StreamDraft> finished(1);
  for (StreamDraft& one : branches) finished.offer(refine_rings_and_updates(std::move(one)));
  return std::move(finished.take().front());
}

StreamDraft StreamSearch::with_policies(StreamDraft draft, PolicyTrials trials) {
  return passes_.run(pass_name::kActivations, std::move(draft),
                     [&](StreamDraft given) { return best_policies(std::move(given), trials); });
}

StreamDraft StreamSearch::refine_rings_and_updates(StreamDraft draft) {
  draft = passes_.run(pass_name::kRings, std::move(draft),
                      [&](StreamDraft given) { return best_rings(std::move(given)); });
  return passes_.run(pass_name::kUpdates, std::move(draft), [&](StreamDraft given) {
    return best_staging(best_updates(std::move(given)));
  });
}

/// Other lengths of the rings of activations and of what leaves the devices. Either may be the
/// better for being short, since weights take what rings leave.
StreamDraft StreamSearch::best_rings(StreamDraft draft) {
  StreamSchedule chosen = draft.schedule;
  std::vector<int> saved_rings = {chosen.saved_slots};
  if (std::ranges::any_of(chosen.policies, leaves_device)) {
    saved_rings.push_back(with_roomy_saved_ring(chosen).saved_slots);
    saved_rings.push_back(StreamSchedule{}.saved_slots);
  }
  const std::array lengths = {kLeastActivationSlots + 1, kRoomyRing / 2 + 2,    2 * kRoomyRing,
                              all_activations(),         kLeastActivationSlots, kRoomyRing};
  std::vector<RingTry> tries;
  for (const int saved_slots : saved_rings) {
    chosen.saved_slots = saved_slots;
    for (const int slots : lengths) tries.push_back({chosen, slots});
  }
  look_ahead(tries, draft.step());
  for (const RingTry& one : tries) {
    const Micros step = draft.step();
    draft = faster(std::move(draft), try_longest_ring(one, step).draft);
  }
  return neighbouring_rings(std::move(draft));
}

/// A slot more or less in either ring, as long as that is worth a simulation.
StreamDraft StreamSearch::neighbouring_rings(StreamDraft draft) {
  Micros before = kNever;
  while (draft.step() < before * (1 - kWorthTrying)) {
    before = draft.step();
    const StreamSchedule& chosen = draft.schedule;
    std::vector<StreamSchedule> neighbours;
    for (const int by : {-1, 1}) {
      const int slots = chosen.activation_slots + by;
      if (slots >= kLeastActivationSlots) neighbours.push_back(with_slots(chosen, slots));
      if (!std::ranges::any_of(chosen.policies, leaves_device)) continue;
      StreamSchedule resized = chosen;
      resized.saved_slots += by;
      if (resized.saved_slots >= 1) neighbours.push_back(std::move(resized));
    }
    draft = fastest_of(std::move(draft), neighbours);
  }
  return draft;
}

StreamDraft StreamSearch::best_policies(StreamDraft draft, PolicyTrials trials) {
  const StreamSchedule fastest = draft.schedule;
  draft = best_policies_of(std::move(draft), fastest, trials);
  return best_policies_of(std::move(draft), least_memory_, trials);
}

StreamDraft StreamSearch::best_policies_of(StreamDraft draft, StreamSchedule schedule,
                                           PolicyTrials trials) {
  if (is_tired()) return draft;
  const bool to_drives = trials.leaving == Leaving::for_drives;
  schedule = at_rest(std::move(schedule), to_drives);
  schedule.policies = {};
  const KeptSlots slots = kept_slots(chain_, schedule);
  if (!saves_any(keep_all(chain_, slots))) return draft;
  const Ideal ideal = ideal_of(with_slots(schedule, kRoomyRing), to_drives, slots);
  if (ideal.step >= draft.step()) return draft;
  std::vector<StreamSchedule> lean;
  for (ActivationPolicies& policies :
       streaming_policies(chain_, slots, question_.micro_batches, to_drives)) {
    lean.push_back(with_slots(schedule, kLeastActivationSlots));
    lean.back().policies = std::move(policies);
    if (!has_room_for(lean.back(), slots, ideal.free_dram)) lean.pop_back();
  }
  const auto mixed = [&](const StreamSchedule& one) { return with_slots(one, kRoomyRing); };
  if (trials.rings == Rings::mixed) {
    std::vector<StreamSchedule> both;
    for (const StreamSchedule& one : lean) both.insert(both.end(), {mixed(one), one});
    return fastest_of(std::move(draft), both);
  }
  const auto roomy = [&](const StreamSchedule& one) { return with_roomy_saved_ring(mixed(one)); };
  look_ahead(lean.size(), [&, step = draft.step()](std::size_t i, Sights& sights) {
    if (peek(roomy(lean[i]), step, sights)) peek(lean[i], step, sights);
  });
  for (const StreamSchedule& one : lean) {
    const Micros step = draft.step();
    Attempt attempt = try_schedule(roomy(one), step);  // best_rings() has other lengths
    if (attempt.lacking) attempt = try_schedule(one, step);
    draft = faster(std::move(draft), std::move(attempt.draft));
  }
  return draft;
}

// Policies shorten backwards, no copy and no update. `schedule` keeps nothing; `slots` are what it
// could keep.
StreamSearch::Ideal StreamSearch::ideal_of(const StreamSchedule& schedule, bool swaps_to_drive,
                                           const KeptSlots& slots) {
  const auto [known, is_new] = ideals_.try_emplace(key_of(schedule) + (swaps_to_drive ? "d" : ""));
  Ideal& ideal = known->second;
  if (!is_new) return ideal;
  Plan plan = write(schedule);
  ideal.free_dram = room_in_forward(plan, host_limit(question_));
  for (Task& task : plan.tasks) {
    if (task.kind != TaskKind::backward) continue;
    if (slots[task.block] > 0) task.micros = least_backward(chain_.blocks[task.block]);
  }
  if (lost(schedule, plan)) {
    ideal.step = kNever;
    return ideal;
  }
  accesses_.set(plan);
  ideal.step = simulator_.step_of(plan);
  return ideal;
}

/// Cheap to see: more than a device's memory stays there, or more leaves for DRAM than the `dram`
/// bytes that forward may fill there and what the devices' rings still hold when backward begins.
bool StreamSearch::has_room_for(const StreamSchedule& schedule, const KeptSlots& slots,
                                Bytes dram) {
  Bytes largest;
  Bytes leaving;
  for (std::size_t b = 0; b < chain_.size(); ++b) {
    if (schedule.policies[b] != ActivationPolicy::swap_to_host) continue;
    largest = std::max(largest, chain_.blocks[b].saved);
    leaving += chain_.blocks[b].saved * batches_at_once(question_);
  }
  const int in_rings = schedule.devices * with_roomy_saved_ring(schedule).saved_slots;
  if (leaving > dram + largest * in_rings) return false;
  for (int d = 0; d < schedule.devices; ++d) {
    const Bytes rings = chain_.activation * kLeastActivationSlots;
    if (saved_bytes(chain_, schedule, slots, d) + rings > device_limit(question_, d)) {
      wants_memory_ = true;
      return false;
    }
  }
  return true;
}

/// The draft with what passes between devices going straight, or `sent`, whichever is faster. Where
/// slots for what arrives do not fit beside all that is there, a little less is at home.
std::optional<StreamDraft> StreamSearch::straight(const StreamDraft& draft,
                                                  std::optional<StreamDraft> sent) {
  StreamSchedule schedule = draft.schedule;
  schedule.straight = true;
  const auto try_it = [&](const StreamSchedule& tried) {
    const auto limit = sent ? std::optional(sent->step()) : std::nullopt;
    Attempt attempt = try_longest_ring({tried, tried.activation_slots}, limit);
    if (attempt.draft && !(sent && sent->step() <= attempt.draft->step())) {
      sent = std::move(attempt.draft);
    }
    return !attempt.lacking;
  };
  if (try_it(schedule)) return sent;
  for (const auto kind : {&HomeCounts::weights, &HomeCounts::sums, &HomeCounts::all}) {
    StreamSchedule less = schedule;
    if (less.on_devices.*kind > 0 && (--(less.on_devices.*kind), try_it(less))) break;
  }
  return sent;
}

/// With homes and rings of its own.
StreamDraft StreamSearch::refined_straight(StreamDraft draft) {
  if (homes_) draft = more_at_home(std::move(draft));
  return neighbouring_rings(std::move(draft));
}

// ---- lengths of rings ----

StreamSchedule StreamSearch::with_slots(StreamSchedule schedule, int slots) const {
  schedule.activation_slots = slots;
  schedule.token_slots =
      slots == kLeastActivationSlots ? 1 : std::min(batches_at_once(question_), slots);
  return schedule;
}

/// With a slot per micro-batch a block's visit waits for no copy of its own.
StreamSchedule StreamSearch::with_roomy_saved_ring(StreamSchedule schedule) const {
  schedule.saved_slots = std::max(schedule.saved_slots, batches_at_once(question_));
  return schedule;
}

int StreamSearch::all_activations() const {
  return static_cast<int>(chain_.size()) * batches_at_once(question_) + kLeastActivationSlots;
}

StrategyPlan StreamSearch::answer(const StreamDraft& draft, const std::string& remark) {
  stand_on(draft.rung);
  Plan plan = write_stream_plan(question_, chain_, draft.schedule);
  int device = 0;
  for (Place& place : plan.places) {
    if (place.kind == PlaceKind::device) place.budget = device_limit(asked_, device++);
  }
  accesses_.set(plan);
  Simulation prediction = simulate(plan);
  StrategyPlan answer{std::move(plan), std::move(prediction), remark};
  answer.remark += ", " + std::to_string(draft.schedule.activation_slots) + " activation slots";
  if (draft.schedule.uses_drives()) answer.remark += ", drives";
  answer.report.stages = stage_reports(asked_.machine, draft.schedule.visits);
  answer.passes = passes_.reports();
  answer.clipped_step = clipped_step(answer.plan, simulator_);
  return answer;
}

bool is_small_step(const PlanQuestion& question, const Chain& chain) {
  return chain.size() * static_cast<std::size_t>(question.micro_batches) <= kSmallStep;
}

std::vector<int> finest_partition(const Chain& chain) {
  std::vector<int> ends;
  for (int b = 1; b <= static_cast<int>(chain.size()); ++b) ends.push_back(b);
  return ends;
}

}  // namespace ferry
