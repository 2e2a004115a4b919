#include "planner/strategies/streaming.h"

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <utility>

#include "planner/costs/queues.h"
#include "planner/strategies/device_homes.h"
#include "planner/strategies/homes.h"
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
// A search through plans of hundreds of layers or of a thousand micro-batches would take minutes:
// it ends, but for what has to be known, when so many tasks of large plans are written.
constexpr std::ptrdiff_t kMostWritten = 4'000'000;

bool leaves_device(ActivationPolicy policy) {
  return policy == ActivationPolicy::swap_to_host || policy == ActivationPolicy::swap_to_drive;
}

// Numbers one behind the other, as they lie in memory: keys are made more often than plans.
class ScheduleKey {
 public:
  template <std::integral Number>
  void add(Number number) {
    key_.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  void add(const std::vector<BlockHome>& homes) {
    add(std::ssize(homes));
    for (const BlockHome& home : homes) add_flags(home);
  }
  std::string take() { return std::move(key_); }

 private:
  void add_flags(const BlockHome& home) {
    int bits = 0;
    for (const bool bit :
         {home.on_device, home.weight_stays, home.sum_waits, home.input_stays, home.renews_at_once,
          home.weight_on_drive, home.state_on_drive, home.sum_passes}) {
      bits = 2 * bits + (bit ? 1 : 0);
    }
    key_ += static_cast<char>(bits);
  }

  std::string key_;
};

// What tells schedules of one strategy apart, but for their homes.
ScheduleKey key_without_homes(const StreamSchedule& schedule) {
  ScheduleKey key;
  const StagingRoom& room = schedule.staging;
  const bool leaves = std::ranges::any_of(schedule.policies, leaves_device);
  for (const int number :
       {schedule.activation_slots, schedule.updates_as_landed ? 1 : 0, schedule.sums_leave_first,
        schedule.updates_read_apart ? 1 : 0, schedule.straight ? 1 : 0, schedule.updates_ahead,
        room.states, room.weights, room.sums, room.activations,
        leaves ? schedule.saved_slots : 0}) {
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

// Tells schedules of one strategy apart, whose homes are decided.
std::string key_of(const StreamSchedule& schedule) {
  ScheduleKey key = key_without_homes(schedule);
  key.add(schedule.homes);
  return key.take();
}

// Tells schedules apart whose homes follow from what they ask for.
std::string key_before_rest(const StreamSchedule& schedule) {
  ScheduleKey key = key_without_homes(schedule);
  const HomeCounts& on = schedule.on_devices;
  for (const int count : {on.all, on.large, on.sums, on.weights, on.passing, on.all_elsewhere,
                          on.sums_elsewhere, on.renewed}) {
    key.add(count);
  }
  key.add(schedule.left_free.count);
  key.add(schedule.chosen_homes);
  return key.take();
}

// Whether no device's memory is full: what passes has all the room that is of use.
bool leaves_room(const Plan& plan) {
  return std::ranges::all_of(plan.places.ids(), [&](PlaceId id) {
    const Place& place = plan.places[id];
    return place.kind != PlaceKind::device || peak_bytes(plan, id) < place.budget;
  });
}

// The copies of sums that another device goes on with, which could go there straight: all but the
// last of a block's way down, by which the host updates.
IdVector<TaskId, bool> sums_for_devices(const Plan& plan) {
  IdVector<TaskId, bool> found(plan.tasks.size());
  IdVector<BlockId, bool> landed(plan.blocks.size());
  for (TaskId id(static_cast<int>(plan.tasks.size())); id > TaskId(0);) {
    id = TaskId(id.number() - 1);
    const Task& task = plan.tasks[id];
    if (task.kind != TaskKind::copy) continue;
    const Instance& to = plan.instances[task.writes.front()];
    const ValueKind kind = plan.values[to.value].kind;
    if (kind != ValueKind::gradient && kind != ValueKind::rounded) continue;
    const bool is_whole = plan.places[to.place].kind == PlaceKind::host &&
                          plan.blocks[task.block].trainable && !landed[task.block];
    if (is_whole) landed[task.block] = true;
    found[id] = !is_whole;
  }
  return found;
}

Bytes limit_of(const PlanQuestion& question, const std::string& device) {
  const auto& devices = question.machine.devices;
  const auto at = std::ranges::find(devices, device, &MachineDevice::name) - devices.begin();
  return device_limit(question, static_cast<int>(at));
}

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

void StreamSearch::offer(StreamSchedule schedule) {
  schedule = staged(std::move(schedule));
  const Micros best = offered_.best().step();
  Attempt attempt = try_longest_ring(schedule, kRoomyRing, best);
  if (attempt.draft) offered_.offer(std::move(*attempt.draft));
}

void StreamSearch::offer_for_homes(StreamSchedule regular) {
  regular_.push_back(staged(std::move(regular)));
}

StreamDraft StreamSearch::faster_of(StreamDraft draft, const StreamSchedule& schedule) {
  const Micros step = draft.step();
  return faster(std::move(draft), try_schedule(schedule, step).draft);
}

std::optional<Micros> StreamSearch::step_of(const StreamSchedule& schedule, Bytes rung) {
  stand_on(rung);
  const Attempt attempt = try_schedule(schedule, {});
  return attempt.draft ? std::optional(attempt.draft->step()) : std::nullopt;
}

// `faster_than`: slower plans are of no use. One at least is wanted at any time, so that the
// strategy answers.
StreamSearch::Attempt StreamSearch::try_schedule(const StreamSchedule& offered,
                                                 std::optional<Micros> faster_than) {
  StreamSchedule schedule = offered;
  schedule.left_free = {};
  schedule = as_asked(schedule);
  const std::string key = key_of(schedule);
  if (const auto known = tried_.find(key); known != tried_.end() && holds_here(known->second)) {
    const Verdict& verdict = known->second;
    if (verdict.lacking) return {std::nullopt, lacking_here(*verdict.lacking)};
    if (faster_than && verdict.at_least >= *faster_than) return {};
    if (verdict.is_exact) {
      schedule.left_free = verdict.left_free;
      schedule = as_asked(schedule);
      return {StreamDraft{std::move(schedule), verdict.rung, verdict.at_least}, std::nullopt};
    }
  }
  if (faster_than && is_tired()) return {};
  Verdict& verdict = tried_[key];
  verdict = {};
  verdict.rung = rung_;
  Rated rated = rate(std::move(schedule), faster_than);
  written_ += rated.written;
  verdict.left_free = rated.draft.schedule.left_free;
  verdict.lacking = rated.lacking;
  if (rated.lacking) return {std::nullopt, lacking_here(*rated.lacking)};
  verdict.is_roomy = rated.is_roomy;
  wants_memory_ = wants_memory_ || !verdict.is_roomy;
  verdict.at_least = rated.draft.time;
  verdict.is_exact = rated.is_exact;
  if (!rated.is_exact) return {};
  if (!rated.draft.schedule.straight) fastest_ = std::min(fastest_, rated.draft.step());
  keep_best(rated);
  return {std::move(rated.draft), std::nullopt};
}

StreamSearch::Rated StreamSearch::rate(StreamSchedule schedule,
                                       std::optional<Micros> faster_than) const {
  Rated rated;
  rated.draft = {std::move(schedule), rung_, {}};
  Plan plan = settle(rated);
  if (rated.lacking) return rated;
  rated.is_roomy = leaves_room(plan);
  rated.fits_asked = fits_asked(plan);
  if (faster_than) {
    rated.draft.time = lost(rated.draft.schedule, plan) ? kNever : find_busiest(plan).time;
    if (rated.draft.time >= *faster_than) return rated;
  }
  accesses_.set(plan);
  const Micros step = simulator_.step_of(plan);
  rated.draft.time = expected_step(question_, step, clipped_step(std::move(plan), simulator_));
  rated.is_exact = true;
  return rated;
}

void StreamSearch::keep_best(const Rated& rated) {
  if (rated.fits_asked && is_better(rated.draft)) best_ = rated.draft;
}

/// Of equals the first, but what spares links before what does not.
bool StreamSearch::is_better(const StreamDraft& draft) const {
  if (!best_ || draft.step() < best_->step()) return true;
  const bool spares = draft.schedule.straight && !best_->schedule.straight;
  return spares && draft.step() == best_->step();
}

Plan StreamSearch::write(const StreamSchedule& schedule, std::ptrdiff_t& written) const {
  Plan plan = write_stream_plan(question_, chain_, schedule, TaskNames::none);
  const bool counts = std::ssize(plan.tasks) > kLargePlan && !schedule.straight;
  if (counts) written += std::ssize(plan.tasks);
  return plan;
}

Plan StreamSearch::write(const StreamSchedule& schedule) { return write(schedule, written_); }

bool StreamSearch::is_tired() const { return written_ > kMostWritten; }

/// Of a verdict of a lower rung.
bool StreamSearch::holds_here(const Verdict& verdict) const {
  if (verdict.rung == rung_ || verdict.is_roomy) return true;
  if (!verdict.lacking) return false;
  const Shortage& lacking = *verdict.lacking;
  return lacking.kind != PlaceKind::device || lacking.need > limit_of(question_, lacking.place);
}

Shortage StreamSearch::lacking_here(Shortage lacking) {
  if (lacking.kind != PlaceKind::device) return lacking;
  wants_memory_ = true;
  lacking.have = limit_of(question_, lacking.place);
  return lacking;
}

bool StreamSearch::fits_asked(const Plan& plan) const {
  int device = 0;
  for (const PlaceId id : plan.places.ids()) {
    if (plan.places[id].kind != PlaceKind::device) continue;
    if (peak_bytes(plan, id) > device_limit(asked_, device++)) return false;
  }
  return true;
}

/// The longest ring up to `slots` that fits beside the schedule's visits.
StreamSearch::Attempt StreamSearch::try_longest_ring(const StreamSchedule& schedule, int slots,
                                                     std::optional<Micros> faster_than) {
  slots = std::min(slots, all_activations());
  while (true) {
    Attempt attempt = try_schedule(with_slots(schedule, slots), faster_than);
    if (!attempt.lacking || slots <= kLeastActivationSlots) return attempt;
    const std::int64_t missing = (attempt.lacking->need - attempt.lacking->have).count;
    const std::int64_t too_many = missing / std::max<std::int64_t>(1, chain_.activation.count);
    slots = static_cast<int>(
        std::max<std::int64_t>(kLeastActivationSlots, slots - std::max<std::int64_t>(1, too_many)));
  }
}

// Whether neither the plan nor any that refinement makes of its visits can be as fast as another
// strategy's. More would be wrong to leave out: what is refined next is the fastest so far, so the
// strategy would end elsewhere than it does alone, and auto could be slower than it. Refinement
// changes rings, policies, homes, the order of updates, which device is which and what goes
// straight between devices: it spares recompute and copies of activations and of sums for another
// device; of weights, other sums and updates no more than devices can hold.
bool StreamSearch::lost(const StreamSchedule& schedule, const Plan& plan) const {
  if (!question_.faster_than) return false;
  const auto of_drive = [&](const Resource& resource) {
    return plan.places[resource.place].kind == PlaceKind::drive;
  };
  double fastest_link = 0;
  for (const Resource& resource : plan.resources) {
    if (!of_drive(resource)) fastest_link = std::max(fastest_link, resource.rate);
  }
  IdVector<TaskId, bool> may_go_straight(plan.tasks.size());
  if (sends_) may_go_straight = sums_for_devices(plan);
  IdVector<ResourceId, Micros> busy(plan.resources.size());
  IdVector<ResourceId, double> moved(plan.resources.size());
  for (const TaskId id : plan.tasks.ids()) {
    const Task& task = plan.tasks[id];
    if (task.kind == TaskKind::copy) {
      if (task.micro_batch >= 0 || may_go_straight[id]) continue;
      moved[task.resource] += as_double(moved_bytes(task));
    } else if (task.kind == TaskKind::backward) {
      busy[task.resource] += may_keep() ? least_backward(chain_.blocks[task.block]) : task.micros;
    } else if (task.kind == TaskKind::update &&
               plan.places[plan.resources[task.resource].place].kind == PlaceKind::host) {
      busy[task.resource] += chain_.blocks[task.block].host_update;
    } else {
      busy[task.resource] += task.micros;
    }
  }
  const HomeSavings most = homes_ ? most_savings(chain_, schedule) : HomeSavings{};
  double memory = 0;
  for (int d = 0; d < device_count(); ++d) {
    memory += static_cast<double>(device_limit(asked_, d).count);
  }
  for (const ResourceId id : plan.resources.ids()) {
    const Resource& resource = plan.resources[id];
    if (resource.kind == ResourceKind::host) {
      busy[id] = busy[id] - most.updates * memory;
    } else if (resource.kind == ResourceKind::copy && !of_drive(resource)) {
      const Bytes limit = limit_of(asked_, plan.places[resource.place].name);
      const double spared = most.copies * static_cast<double>(limit.count);
      busy[id] = from_seconds(std::max(0.0, moved[id] - spared) / fastest_link);
    }
  }
  const Micros drives = least_on_drives(memory * (1 + most.copies));
  return std::max(drives, *std::ranges::max_element(busy)) >= *question_.faster_than;
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
  for (const int saved_slots : saved_rings) {
    chosen.saved_slots = saved_slots;
    for (const int slots : lengths) {
      const Micros step = draft.step();
      draft = faster(std::move(draft), try_longest_ring(chosen, slots, step).draft);
    }
  }
  return neighbouring_rings(std::move(draft));
}

/// A slot more or less in either ring, as long as that is worth a simulation.
StreamDraft StreamSearch::neighbouring_rings(StreamDraft draft) {
  Micros before = kNever;
  while (draft.step() < before * (1 - kWorthTrying)) {
    before = draft.step();
    const StreamSchedule chosen = draft.schedule;
    for (const int by : {-1, 1}) {
      const int slots = chosen.activation_slots + by;
      if (slots >= kLeastActivationSlots) {
        draft = faster_of(std::move(draft), with_slots(chosen, slots));
      }
      if (!std::ranges::any_of(chosen.policies, leaves_device)) continue;
      StreamSchedule resized = chosen;
      resized.saved_slots += by;
      if (resized.saved_slots >= 1) draft = faster_of(std::move(draft), resized);
    }
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
  for (ActivationPolicies& policies :
       streaming_policies(chain_, slots, question_.micro_batches, to_drives)) {
    StreamSchedule lean = with_slots(schedule, kLeastActivationSlots);
    lean.policies = std::move(policies);
    if (!has_room_for(lean, slots, ideal.free_dram)) continue;
    const StreamSchedule mixed = with_slots(lean, kRoomyRing);
    const StreamSchedule roomy = with_roomy_saved_ring(mixed);
    if (trials.rings == Rings::mixed) {
      draft = faster_of(faster_of(std::move(draft), mixed), lean);
      continue;
    }
    const Micros step = draft.step();
    Attempt attempt = try_schedule(roomy, step);  // best_rings() has other lengths
    if (attempt.lacking) attempt = try_schedule(lean, step);
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
  ideal.free_dram = host_limit(question_) - host_peak(plan);
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
/// bytes that are free there and what the devices' rings still hold when backward begins.
bool StreamSearch::has_room_for(const StreamSchedule& schedule, const KeptSlots& slots,
                                Bytes dram) {
  Bytes largest;
  Bytes leaving;
  for (std::size_t b = 0; b < chain_.size(); ++b) {
    if (schedule.policies[b] != ActivationPolicy::swap_to_host) continue;
    largest = std::max(largest, chain_.blocks[b].saved);
    leaving += chain_.blocks[b].saved * question_.micro_batches;
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
    Attempt attempt = try_longest_ring(tried, tried.activation_slots, limit);
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
      slots == kLeastActivationSlots ? 1 : std::min(question_.micro_batches, slots);
  return schedule;
}

/// With a slot per micro-batch a block's visit waits for no copy of its own.
StreamSchedule StreamSearch::with_roomy_saved_ring(StreamSchedule schedule) const {
  schedule.saved_slots = std::max(schedule.saved_slots, question_.micro_batches);
  return schedule;
}

int StreamSearch::all_activations() const {
  return static_cast<int>(chain_.size()) * question_.micro_batches + kLeastActivationSlots;
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
