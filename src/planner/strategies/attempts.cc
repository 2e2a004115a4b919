// Trying a schedule: written, settled, simulated; and what is known of those that were tried.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/side_by_side.h"
#include "planner/costs/queues.h"
#include "planner/strategies/device_homes.h"
#include "planner/strategies/homes.h"
#include "planner/strategies/schedule_key.h"
#include "planner/strategies/streaming.h"
#include "planner/write/allocate.h"
#include "planner/write/stream_plan.h"

namespace ferry {
namespace {

// A search through plans of hundreds of layers or of a thousand micro-batches would take minutes:
// it ends, but for what has to be known, when so many tasks of large plans are written.
constexpr std::ptrdiff_t kMostWritten = 4'000'000;
constexpr std::ptrdiff_t kFewPlans = 20;  // with so few a climb comes nowhere

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

StreamDraft StreamSearch::faster_of(StreamDraft draft, const StreamSchedule& schedule) {
  const Micros step = draft.step();
  return faster(std::move(draft), try_schedule(schedule, step).draft);
}

StreamDraft StreamSearch::fastest_of(StreamDraft draft, std::span<const StreamSchedule> schedules) {
  look_ahead(schedules.size(), [&, step = draft.step()](std::size_t i, Sights& sights) {
    peek(schedules[i], step, sights);
  });
  for (const StreamSchedule& schedule : schedules) draft = faster_of(std::move(draft), schedule);
  return draft;
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
  StreamSchedule schedule = settled_anew(offered);
  const std::string key = key_of(schedule);
  if (const Verdict* verdict = known(key, faster_than)) {
    if (verdict->lacking) return {std::nullopt, lacking_here(*verdict->lacking)};
    if (faster_than && verdict->at_least >= *faster_than) return {};
    schedule.left_free = verdict->left_free;
    schedule = as_asked(schedule);
    return {StreamDraft{std::move(schedule), verdict->rung, verdict->at_least, verdict->fits_asked},
            std::nullopt};
  }
  if (faster_than && is_tired()) return {};
  Verdict& verdict = tried_[key];
  verdict = {};
  verdict.rung = rung_;
  Rated rated = rate_once(key, std::move(schedule), faster_than);
  written_ += rated.written;
  verdict.left_free = rated.draft.schedule.left_free;
  verdict.lacking = rated.lacking;
  if (rated.lacking) return {std::nullopt, lacking_here(*rated.lacking)};
  verdict.is_roomy = rated.is_roomy;
  verdict.fits_asked = rated.draft.fits_asked;
  wants_memory_ = wants_memory_ || !verdict.is_roomy;
  verdict.at_least = rated.draft.time;
  verdict.is_exact = rated.is_exact;
  if (!rated.is_exact) return {};
  if (!rated.draft.schedule.straight) fastest_ = std::min(fastest_, rated.draft.step());
  keep_best(rated);
  return {std::move(rated.draft), std::nullopt};
}

StreamSchedule StreamSearch::settled_anew(StreamSchedule schedule) const {
  schedule.left_free = {};
  return as_asked(schedule);
}

/// The verdict, if one says all that a limit asks for.
const StreamSearch::Verdict* StreamSearch::known(const std::string& key,
                                                 std::optional<Micros> faster_than) const {
  const auto found = tried_.find(key);
  if (found == tried_.end() || !holds_here(found->second)) return nullptr;
  const Verdict& verdict = found->second;
  const bool is_too_slow = faster_than && verdict.at_least >= *faster_than;
  return verdict.lacking || verdict.is_exact || is_too_slow ? &verdict : nullptr;
}

/// rate(), or what a look ahead saw: the same.
StreamSearch::Rated StreamSearch::rate_once(const std::string& key, StreamSchedule schedule,
                                            std::optional<Micros> faster_than) {
  const auto seen = seen_ahead_.find(key);
  if (seen == seen_ahead_.end() || !faster_than || seen->second.limit < *faster_than) {
    return rate(std::move(schedule), faster_than);
  }
  Rated rated = std::move(seen->second.rated);
  seen_ahead_.erase(seen);
  if (rated.is_exact && rated.at_least >= *faster_than) {
    rated.is_exact = false;
    rated.draft.time = rated.at_least;
  }
  return rated;
}

std::optional<Shortage> StreamSearch::peek(const StreamSchedule& offered, Micros faster_than,
                                           Sights& sights) const {
  StreamSchedule schedule = settled_anew(offered);
  const std::string key = key_of(schedule);
  if (const Verdict* verdict = known(key, faster_than)) {
    return verdict->lacking ? std::optional(as_here(*verdict->lacking)) : std::nullopt;
  }
  const auto seen = seen_ahead_.find(key);
  if (seen != seen_ahead_.end() && seen->second.limit >= faster_than) {
    return seen->second.rated.lacking;
  }
  sights.emplace_back(key, Seen{faster_than, rate(std::move(schedule), faster_than)});
  return sights.back().second.rated.lacking;
}

void StreamSearch::look_ahead(std::size_t count,
                              const std::function<void(std::size_t i, Sights& sights)>& probe) {
  if (count < 2 || is_tired() || !has_idle_cores()) return;
  std::vector<Sights> sights(count);
  std::vector<std::function<void()>> probes;
  for (std::size_t i = 0; i < count; ++i) {
    probes.emplace_back([&, i] { probe(i, sights[i]); });
  }
  side_by_side(probes);
  for (Sights& each : sights) {
    for (auto& [key, seen] : each) seen_ahead_.insert_or_assign(key, std::move(seen));
  }
}

void StreamSearch::look_ahead(std::span<const RingTry> tries, Micros faster_than) {
  look_ahead(tries.size(), [&](std::size_t i, Sights& sights) {
    int slots = first_length(tries[i]);
    while (const auto lacking = peek(with_slots(tries[i].schedule, slots), faster_than, sights)) {
      if (slots <= kLeastActivationSlots) return;
      slots = next_length(slots, *lacking);
    }
  });
}

StreamSearch::Rated StreamSearch::rate(StreamSchedule schedule,
                                       std::optional<Micros> faster_than) const {
  Rated rated;
  rated.draft = {std::move(schedule), rung_, {}};
  Plan plan = settle(rated);
  if (rated.lacking) return rated;
  rated.is_roomy = leaves_room(plan);
  rated.draft.fits_asked = fits_asked(plan);
  if (faster_than) {
    rated.at_least = lost(rated.draft.schedule, plan) ? kNever : find_busiest(plan).time;
    rated.draft.time = rated.at_least;
    if (rated.at_least >= *faster_than) return rated;
  }
  accesses_.set(plan);
  const Micros step = simulator_.step_of(plan);
  rated.draft.time = expected_step(question_, step, clipped_step(std::move(plan), simulator_));
  rated.is_exact = true;
  return rated;
}

void StreamSearch::keep_best(const Rated& rated) {
  if (!rated.draft.fits()) return;
  passes_.found(rated.draft.step());
  if (is_better(rated.draft)) best_ = rated.draft;
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

bool StreamSearch::tires_at_once() const { return tasks_ > kMostWritten / kFewPlans; }

/// Of a verdict of a lower rung.
bool StreamSearch::holds_here(const Verdict& verdict) const {
  if (verdict.rung == rung_ || verdict.is_roomy) return true;
  if (!verdict.lacking) return false;
  const Shortage& lacking = *verdict.lacking;
  return lacking.kind != PlaceKind::device || lacking.need > limit_of(question_, lacking.place);
}

Shortage StreamSearch::as_here(Shortage lacking) const {
  if (lacking.kind == PlaceKind::device) lacking.have = limit_of(question_, lacking.place);
  return lacking;
}

Shortage StreamSearch::lacking_here(Shortage lacking) {
  wants_memory_ = wants_memory_ || lacking.kind == PlaceKind::device;
  return as_here(std::move(lacking));
}

bool StreamSearch::fits_asked(const Plan& plan) const {
  int device = 0;
  for (const PlaceId id : plan.places.ids()) {
    if (plan.places[id].kind != PlaceKind::device) continue;
    if (peak_bytes(plan, id) > device_limit(asked_, device++)) return false;
  }
  return true;
}

int StreamSearch::first_length(const RingTry& one) const {
  return std::min(one.slots, all_activations());
}

/// Behind one that lacked so much.
int StreamSearch::next_length(int slots, const Shortage& lacking) const {
  const std::int64_t missing = lacking.missing().count;
  const std::int64_t too_many = missing / std::max<std::int64_t>(1, chain_.activation.count);
  return static_cast<int>(
      std::max<std::int64_t>(kLeastActivationSlots, slots - std::max<std::int64_t>(1, too_many)));
}

/// The longest ring that fits beside the schedule's visits.
StreamSearch::Attempt StreamSearch::try_longest_ring(const RingTry& one,
                                                     std::optional<Micros> faster_than) {
  int slots = first_length(one);
  while (true) {
    Attempt attempt = try_schedule(with_slots(one.schedule, slots), faster_than);
    if (!attempt.lacking || slots <= kLeastActivationSlots) return attempt;
    slots = next_length(slots, *attempt.lacking);
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
      if (task.piece <= 0) busy[task.resource] += chain_.blocks[task.block].host_update;
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

}  // namespace ferry
