#include "planner/strategies/streaming.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "planner/costs/queues.h"
#include "planner/strategies/homes.h"
#include "planner/write/allocate.h"
#include "planner/write/edges.h"
#include "planner/write/stream_plan.h"

namespace ferry {
namespace {

constexpr int kRoomyRing = 8;  // slots with which copies no longer wait for slots, as a rule
// Of a small step. What changes the order of schedules, be it a little more memory, then changes
// the answer less.
constexpr std::size_t kRunnersUp = 5;
constexpr std::size_t kSmallStep = 100;  // forward tasks

// Tells schedules of one strategy apart.
std::string key_of(const StreamSchedule& schedule) {
  std::string key =
      std::to_string(schedule.activation_slots) + (schedule.updates_as_landed ? "l" : "b");
  if (saves_any(schedule.policies)) key += std::to_string(schedule.saved_slots);
  for (const ActivationPolicy policy : schedule.policies)
    key += static_cast<char>('0' + static_cast<int>(policy));
  for (const StageVisit& visit : schedule.visits) {
    for (const int part : {static_cast<int>(visit.direction), visit.device, visit.first, visit.end,
                           visit.first_batch, visit.end_batch}) {
      key += ' ' + std::to_string(part);
    }
  }
  return key;
}

Bytes host_peak(const Plan& plan) {
  const auto host = std::ranges::find(plan.places, PlaceKind::host, &Place::kind);
  return peak_bytes(plan, static_cast<PlaceId>(host - plan.places.begin()));
}

}  // namespace

StreamSearch::StreamSearch(const PlanQuestion& question, const Chain& chain)
    : question_(question),
      chain_(chain),
      most_runners_up_(is_small_step(question, chain) ? kRunnersUp : 0) {}

std::optional<Shortage> StreamSearch::start(StreamSchedule least_memory) {
  least_memory = with_slots(std::move(least_memory), kLeastActivationSlots);
  least_memory.policies = asked_policies(least_memory);
  least_memory_ = least_memory;
  auto lacking = try_schedule(least_memory);
  if (!has_drives()) return lacking;
  const Bytes needed = lacking ? rest_on_drives(least_memory) : host_peak(best_->plan);
  if (best_) {
    rest_with_swaps(needed, least_memory);
    return std::nullopt;
  }
  resting_ = {};
  rest_all_on_drives(question_, chain_, resting_);
  tried_.clear();
  return try_schedule(least_memory);
}

bool StreamSearch::has_drives() const { return drive_array(question_.machine).count > 0; }

// Moves to the drives what DRAM does not hold; a little more where slots of the rings add up.
// Returns what the plan needs with everything in DRAM, these slots included.
Bytes StreamSearch::rest_on_drives(const StreamSchedule& least_memory) {
  constexpr int kRounds = 6;
  const Bytes limit = host_limit(question_);
  Bytes needed = host_peak(write_stream_plan(question_, chain_, least_memory));
  for (int round = 0; round < kRounds && !best_; ++round) {
    resting_ = {};
    rest_by_value(question_, chain_, needed, limit, resting_);
    tried_.clear();
    const auto lacking = try_schedule(least_memory);
    if (!lacking || lacking->kind != PlaceKind::host) break;
    needed += lacking->need - lacking->have;
  }
  return needed;
}

// What leaves the devices for the drives passes through slots in DRAM, for which more moves there.
void StreamSearch::rest_with_swaps(Bytes needed, const StreamSchedule& least_memory) {
  Bytes slot;
  for (const ChainBlock& block : chain_.blocks) slot = std::max(slot, block.saved);
  const int slots = with_roomy_saved_ring(least_memory).saved_slots * least_memory.devices;
  rest_by_value(question_, chain_, needed + slot_size(slot) * slots, host_limit(question_),
                with_swaps_.emplace());
}

void StreamSearch::offer(StreamSchedule schedule) {
  try_longest_ring(std::move(schedule), kRoomyRing);
}

void StreamSearch::refine() {
  std::vector<Found> starts = std::exchange(runners_up_, {});
  most_runners_up_ = 0;
  refine_best();
  for (Found& start : starts) {
    Found fastest = std::exchange(*best_, std::move(start));
    tried_.clear();
    refine_best();
    if (best_step() >= fastest.prediction.step) best_ = std::move(fastest);
  }
}

void StreamSearch::refine_best() {
  if (question_.options.activations != ActivationRule::automatic) {
    offer(with_roomy_saved_ring(best_->schedule));
    refine_rings();
    return;
  }
  try_policies(Leaving::for_dram);
  const Found in_dram = *best_;
  refine_rings();
  if (!has_drives()) return;
  // ActivationPolicies are compared at equal rings, and again with the best rings of either kind,
  // so that no question is answered worse for having drives to swap to.
  Found refined = std::exchange(*best_, in_dram);
  try_policies(Leaving::for_drives);
  if (best_step() < in_dram.prediction.step) refine_rings();
  if (best_step() >= refined.prediction.step) best_ = std::move(refined);
}

// Other ring lengths and orders of updates for the fastest so far.
void StreamSearch::refine_rings() {
  const StreamSchedule chosen = best_->schedule;
  for (const int slots :
       {kLeastActivationSlots + 1, kRoomyRing / 2 + 2, 2 * kRoomyRing, all_activations()}) {
    try_longest_ring(chosen, slots);
  }
  if (question_.clips && question_.mode == PlanMode::train) {
    StreamSchedule landed = best_->schedule;
    landed.updates_as_landed = true;
    try_schedule(landed);
  }
}

void StreamSearch::try_policies(Leaving leaving) {
  const StreamSchedule fastest = best_->schedule;
  try_policies(fastest, leaving);
  try_policies(least_memory_, leaving);
}

void StreamSearch::try_policies(StreamSchedule schedule, Leaving leaving) {
  schedule = at_rest(std::move(schedule), leaving == Leaving::for_drives);
  schedule.policies = {};
  const KeptSlots slots = kept_slots(chain_, schedule);
  if (!saves_any(keep_all(chain_, slots))) return;
  Plan recomputing = write_stream_plan(question_, chain_, with_slots(schedule, kRoomyRing));
  const Bytes dram = host_limit(question_) - host_peak(recomputing);
  if (!policies_may_help(std::move(recomputing), slots)) return;
  for (ActivationPolicies& policies :
       streaming_policies(chain_, slots, question_.micro_batches, leaving == Leaving::for_drives)) {
    StreamSchedule tried = with_slots(schedule, kLeastActivationSlots);
    tried.policies = std::move(policies);
    if (!has_room_for(tried, slots, dram)) continue;
    const StreamSchedule roomy = with_roomy_saved_ring(with_slots(tried, kRoomyRing));
    if (try_schedule(roomy)) try_schedule(tried);  // refine_rings() has other lengths
  }
}

// Whether the plan would be faster than the best if keeping what forward made cost nothing:
// policies shorten backwards, no copy and no update.
bool StreamSearch::policies_may_help(Plan plan, const KeptSlots& slots) const {
  for (Task& task : plan.tasks) {
    if (task.kind != TaskKind::backward) continue;
    const auto block = static_cast<std::size_t>(task.block);
    if (slots[block] > 0) task.micros = least_backward(chain_.blocks[block]);
  }
  if (hopeless(plan)) return false;
  order_accesses(plan);
  return simulate(plan).step < best_step();
}

/// With a slot per micro-batch a block's visit waits for no copy of its own.
StreamSchedule StreamSearch::with_roomy_saved_ring(StreamSchedule schedule) const {
  schedule.saved_slots = std::max(schedule.saved_slots, question_.micro_batches);
  return schedule;
}

/// Cheap to see: more than a device's memory stays there, or more leaves for DRAM than the `dram`
/// bytes that are free there and what the devices' rings still hold when backward begins.
bool StreamSearch::has_room_for(const StreamSchedule& schedule, const KeptSlots& slots,
                                Bytes dram) const {
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
    if (saved_bytes(chain_, schedule, slots, d) + rings > device_limit(question_, d)) return false;
  }
  return true;
}

// What a job asks of every block, wherever it can.
ActivationPolicies StreamSearch::asked_policies(const StreamSchedule& schedule) const {
  const ActivationRule rule = question_.options.activations;
  if (rule == ActivationRule::keep) return keep_all(chain_, kept_slots(chain_, schedule));
  if (rule == ActivationRule::swap) {
    return swap_all(chain_, kept_slots(chain_, schedule), ActivationPolicy::swap_to_host);
  }
  if (rule == ActivationRule::swap_to_drive && has_drives()) {
    return swap_all(chain_, kept_slots(chain_, schedule), ActivationPolicy::swap_to_drive);
  }
  return schedule.policies;
}

StrategyPlan StreamSearch::take(const std::string& remark) {
  StrategyPlan answer{std::move(best_->plan), std::move(best_->prediction), remark};
  answer.remark += ", " + std::to_string(best_->schedule.activation_slots) + " activation slots";
  if (best_->schedule.uses_drives()) answer.remark += ", drives";
  answer.report.stages = stage_reports(question_.machine, best_->schedule.visits);
  return answer;
}

StreamSchedule StreamSearch::with_slots(StreamSchedule schedule, int slots) const {
  schedule.activation_slots = slots;
  schedule.token_slots =
      slots == kLeastActivationSlots ? 1 : std::min(question_.micro_batches, slots);
  return schedule;
}

int StreamSearch::all_activations() const {
  return static_cast<int>(chain_.size()) * question_.micro_batches + kLeastActivationSlots;
}

// Whether the plan's busiest resource alone takes longer than the best. A strategy answers with one
// plan at least.
bool StreamSearch::hopeless(const Plan& plan) const {
  return best_ && (find_busiest(plan).time >= best_->prediction.step || lost(plan));
}

// Whether neither the plan nor any that refinement makes of its visits can be as fast as another
// strategy's. More would be wrong to leave out: what is refined next is the fastest so far, so the
// strategy would end elsewhere than it does alone, and auto could be slower than it. Refinement
// changes rings, policies, the order of updates and which device is which: it spares recompute and
// copies of activations, never a weight's, a gradient's or an update.
bool StreamSearch::lost(const Plan& plan) const {
  if (!question_.faster_than) return false;
  const auto of_drive = [&](const Resource& resource) {
    return plan.places[static_cast<std::size_t>(resource.place)].kind == PlaceKind::drive;
  };
  double fastest_link = 0;
  for (const Resource& resource : plan.resources) {
    if (!of_drive(resource)) fastest_link = std::max(fastest_link, resource.rate);
  }
  std::vector<Micros> busy(plan.resources.size());
  for (const Task& task : plan.tasks) {
    const Resource& resource = plan.resources[static_cast<std::size_t>(task.resource)];
    Micros& queue = busy[static_cast<std::size_t>(task.resource)];
    if (task.kind == TaskKind::backward) {
      const ChainBlock& block = chain_.blocks[static_cast<std::size_t>(task.block)];
      queue += least_backward(block);
    } else if (task.kind != TaskKind::copy) {
      queue += task.micros;
    } else if (task.micro_batch < 0) {
      const double rate = of_drive(resource) ? resource.rate : fastest_link;
      queue += from_seconds(static_cast<double>(task.bytes.count) / rate);
    }
  }
  return *std::ranges::max_element(busy) >= *question_.faster_than;
}

StreamSchedule StreamSearch::at_rest(StreamSchedule schedule, bool swaps_to_drive) const {
  const StreamSchedule& resting = swaps_to_drive && with_swaps_ ? *with_swaps_ : resting_;
  schedule.homes = resting.homes;
  schedule.gradients_on_drive = resting.gradients_on_drive;
  schedule.activations_on_drive = resting.activations_on_drive;
  return schedule;
}

/// Keeps the schedule's plan when it fits and is faster than the best; else returns what it lacks.
std::optional<Shortage> StreamSearch::try_schedule(const StreamSchedule& offered) {
  const ActivationPolicies policies = asked_policies(offered);
  StreamSchedule schedule =
      at_rest(offered, std::ranges::count(policies, ActivationPolicy::swap_to_drive) > 0);
  schedule.policies = policies;
  if (!tried_.insert(key_of(schedule)).second) return std::nullopt;
  Plan plan = write_stream_plan(question_, chain_, schedule);
  std::vector<Shortage> lacking = shortages(plan);
  if (!lacking.empty()) return std::move(lacking.front());
  if (hopeless(plan)) return std::nullopt;
  order_accesses(plan);
  Simulation prediction = simulate(plan);
  keep({std::move(plan), std::move(prediction), std::move(schedule)});
  return std::nullopt;
}

void StreamSearch::keep(Found found) {
  if (!best_) {
    best_ = std::move(found);
    return;
  }
  if (found.prediction.step < best_step()) std::swap(*best_, found);
  const auto after =
      std::ranges::upper_bound(runners_up_, found.prediction.step, {},
                               [](const Found& other) { return other.prediction.step; });
  runners_up_.insert(after, std::move(found));
  if (runners_up_.size() > most_runners_up_) runners_up_.pop_back();
}

/// The longest ring up to `slots` that fits beside the schedule's visits.
void StreamSearch::try_longest_ring(StreamSchedule schedule, int slots) {
  slots = std::min(slots, all_activations());
  while (slots >= kLeastActivationSlots) {
    const std::optional<Shortage> lacking = try_schedule(with_slots(schedule, slots));
    if (!lacking || slots == kLeastActivationSlots) return;
    const std::int64_t missing = (lacking->need - lacking->have).count;
    const std::int64_t too_many = missing / std::max<std::int64_t>(1, chain_.activation.count);
    slots = static_cast<int>(
        std::max<std::int64_t>(kLeastActivationSlots, slots - std::max<std::int64_t>(1, too_many)));
  }
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
