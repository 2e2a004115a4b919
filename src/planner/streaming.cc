#include "planner/streaming.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "planner/edges.h"
#include "planner/homes.h"
#include "planner/queues.h"
#include "planner/stream_plan.h"

namespace ferry {
namespace {

constexpr int kRoomyRing = 8;  // slots with which copies no longer wait for slots, as a rule

// Tells shapes of one strategy apart.
std::string key_of(const StreamShape& shape) {
  std::string key = std::to_string(shape.activation_slots) + (shape.updates_as_landed ? "l" : "b");
  if (saves_any(shape.fates)) key += std::to_string(shape.saved_slots);
  for (const ActivationFate fate : shape.fates)
    key += static_cast<char>('0' + static_cast<int>(fate));
  for (const StageVisit& visit : shape.visits) {
    for (const int part : {static_cast<int>(visit.pass), visit.device, visit.first, visit.end,
                           visit.first_batch, visit.end_batch}) {
      key += ' ' + std::to_string(part);
    }
  }
  return key;
}

}  // namespace

StreamSearch::StreamSearch(const PlanQuestion& question, const Chain& chain)
    : question_(question), chain_(chain) {}

std::optional<Shortage> StreamSearch::start(StreamShape thriftiest) {
  thriftiest = with_slots(std::move(thriftiest), kLeastActivationSlots);
  thriftiest.fates = asked_fates(thriftiest);
  thriftiest_ = thriftiest;
  auto lacking = try_shape(thriftiest);
  if (!lacking || drive_array(question_.machine).count == 0) return lacking;
  rest_on_drives(thriftiest);
  if (best_) return std::nullopt;
  resting_ = {};
  rest_all_on_drives(question_, chain_, resting_);
  tried_.clear();
  return try_shape(thriftiest);
}

// Moves to the drives what DRAM does not hold; a little more where slots of the rings add up.
void StreamSearch::rest_on_drives(const StreamShape& thriftiest) {
  constexpr int kRounds = 6;
  const Bytes limit = host_limit(question_);
  const Plan plan = write_stream_plan(question_, chain_, thriftiest);
  Bytes needed;
  for (std::size_t p = 0; p < plan.places.size(); ++p) {
    if (plan.places[p].kind == PlaceKind::host) needed = peak_bytes(plan, static_cast<PlaceId>(p));
  }
  for (int round = 0; round < kRounds && !best_; ++round) {
    resting_ = {};
    rest_by_value(question_, chain_, needed, limit, resting_);
    tried_.clear();
    const auto lacking = try_shape(thriftiest);
    if (!lacking || lacking->kind != PlaceKind::host) return;
    needed += lacking->need - lacking->have;
  }
}

void StreamSearch::offer(StreamShape shape) { try_longest_ring(std::move(shape), kRoomyRing); }

void StreamSearch::refine() {
  if (question_.options.activations == ActivationRule::automatic) {
    const StreamShape fastest = best_shape_;
    try_fates(fastest);
    try_fates(thriftiest_);
  } else {
    offer(with_roomy_saved_ring(best_shape_));
  }
  const StreamShape chosen = best_shape_;
  for (const int slots :
       {kLeastActivationSlots + 1, kRoomyRing / 2 + 2, 2 * kRoomyRing, all_activations()}) {
    try_longest_ring(chosen, slots);
  }
  if (question_.clips && question_.mode == PlanMode::train) {
    StreamShape landed = best_shape_;
    landed.updates_as_landed = true;
    try_shape(landed);
  }
}

void StreamSearch::try_fates(const StreamShape& shape) {
  const KeptSlots slots = kept_slots(chain_, shape);
  if (!saves_any(swap_all(chain_, slots))) return;
  Plan transfers = write_stream_plan(question_, chain_, with_slots(shape, kRoomyRing));
  for (Task& task : transfers.tasks) {
    if (task.kind == TaskKind::forward || task.kind == TaskKind::backward) task.micros = {};
  }
  if (hopeless(transfers)) return;  // fates shorten compute, no copy and no update
  for (Fates& fates : streaming_fates(chain_, slots, question_.micro_batches)) {
    StreamShape tried = with_slots(shape, kLeastActivationSlots);
    tried.fates = std::move(fates);
    if (!has_room_for(tried, slots)) continue;
    const StreamShape roomy = with_roomy_saved_ring(with_slots(tried, kRoomyRing));
    if (try_shape(roomy)) try_shape(tried);  // refine() has other lengths
  }
}

/// With a slot per micro-batch a block's visit waits for no copy of its own.
StreamShape StreamSearch::with_roomy_saved_ring(StreamShape shape) const {
  shape.saved_slots = std::max(shape.saved_slots, question_.micro_batches);
  return shape;
}

/// Cheap to see: more than a device's memory stays there, or DRAM is full without what would leave.
bool StreamSearch::has_room_for(const StreamShape& shape, const KeptSlots& slots) const {
  if (resting_.uses_drives() &&
      std::ranges::find(shape.fates, ActivationFate::swap_to_host) != shape.fates.end()) {
    return false;
  }
  for (int d = 0; d < shape.devices; ++d) {
    const Bytes rings = chain_.activation * kLeastActivationSlots;
    if (saved_bytes(chain_, shape, slots, d) + rings > device_limit(question_, d)) return false;
  }
  return true;
}

// What a job asks of every block, wherever it can.
Fates StreamSearch::asked_fates(const StreamShape& shape) const {
  const ActivationRule rule = question_.options.activations;
  if (rule == ActivationRule::keep) return keep_all(chain_, kept_slots(chain_, shape));
  if (rule == ActivationRule::swap) return swap_all(chain_, kept_slots(chain_, shape));
  return shape.fates;
}

StrategyPlan StreamSearch::take(const std::string& remark) {
  best_->remark = remark + ", " + std::to_string(best_shape_.activation_slots) +
                  " activation slots" + (best_shape_.uses_drives() ? ", drives" : "");
  best_->report.stages = stage_reports(question_, best_shape_);
  return std::move(*best_);
}

StreamShape StreamSearch::with_slots(StreamShape shape, int slots) const {
  shape.activation_slots = slots;
  shape.token_slots = slots == kLeastActivationSlots ? 1 : std::min(question_.micro_batches, slots);
  return shape;
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
// changes rings, fates, the order of updates and which device is which: it spares recompute and
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

/// Keeps the shape's plan when it fits and is faster than the best; else returns what it lacks.
std::optional<Shortage> StreamSearch::try_shape(const StreamShape& offered) {
  StreamShape shape = offered;
  shape.homes = resting_.homes;
  shape.gradients_on_drive = resting_.gradients_on_drive;
  shape.activations_on_drive = resting_.activations_on_drive;
  shape.fates = asked_fates(shape);
  if (!tried_.insert(key_of(shape)).second) return std::nullopt;
  Plan plan = write_stream_plan(question_, chain_, shape);
  std::vector<Shortage> lacking = shortages(plan);
  if (!lacking.empty()) return std::move(lacking.front());
  if (hopeless(plan)) return std::nullopt;
  order_accesses(plan);
  Simulation prediction = simulate(plan);
  if (best_ && prediction.step >= best_->prediction.step) return std::nullopt;
  best_ = StrategyPlan{std::move(plan), std::move(prediction), {}};
  best_shape_ = std::move(shape);
  return std::nullopt;
}

/// The longest ring up to `slots` that fits beside the shape's visits.
void StreamSearch::try_longest_ring(StreamShape shape, int slots) {
  slots = std::min(slots, all_activations());
  while (slots >= kLeastActivationSlots) {
    const std::optional<Shortage> lacking = try_shape(with_slots(shape, slots));
    if (!lacking || slots == kLeastActivationSlots) return;
    const std::int64_t missing = (lacking->need - lacking->have).count;
    const std::int64_t too_many = missing / std::max<std::int64_t>(1, chain_.activation.count);
    slots = static_cast<int>(
        std::max<std::int64_t>(kLeastActivationSlots, slots - std::max<std::int64_t>(1, too_many)));
  }
}

std::vector<int> finest_partition(const Chain& chain) {
  std::vector<int> ends;
  for (int b = 1; b <= static_cast<int>(chain.size()); ++b) ends.push_back(b);
  return ends;
}

}  // namespace ferry
