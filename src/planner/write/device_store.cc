#include "planner/write/device_store.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/check.h"
#include "planner/write/shared_region.h"

namespace ferry {
namespace {

constexpr std::array kSums = {ValueKind::gradient, ValueKind::rounded};

/// From the first of the device's visits that run the block, but for those `without` the other
/// direction, to the last that runs it at all.
Stay stay_of(const StreamSchedule& schedule, int device, int block, Direction without, Bytes size) {
  Stay stay{.id = block, .size = size, .first = schedule.visits.size()};
  for (std::size_t v = 0; v < schedule.visits.size(); ++v) {
    const StageVisit& visit = schedule.visits[v];
    if (visit.device != device || !contains(visit, block)) continue;
    if (visit.direction != without) stay.first = std::min(stay.first, v);
    stay.last = v;
  }
  return stay;
}

}  // namespace

DeviceStore::DeviceStore(PlanBuilder& builder, const Chain& chain, const Residence& residence,
                         int device, Bytes homes_end)
    : builder_(builder),
      chain_(chain),
      residence_(residence),
      device_(device),
      place_(builder.device(device).place),
      region_(homes_end) {
  const auto give = [&](ValueKind kind, int b) {
    const ValueId value = builder_.value(kind, b, -1);
    own_.set(value, region_);
    region_ += slot_size(builder_.bytes(value));
  };
  for (int b = 0; b < static_cast<int>(chain.size()); ++b) {
    for (const ValueKind sum : kSums) {
      if (!residence.keeps_activations() && keeps(sum, b)) give(sum, b);
    }
    if (residence.keeps_weight(device, b)) give(ValueKind::weight, b);
  }
}

std::size_t DeviceStore::add_visit() {
  visits_.emplace_back();
  return visits_.size() - 1;
}

void DeviceStore::need(ValueKind kind, int block) {
  if (staying(kind, block)) return;
  if (kind != ValueKind::weight && keeps(kind, block)) return;  // its slot comes with lay_out()
  const ValueId value = builder_.value(kind, block, -1);
  VisitMemory& visit = visits_.back();
  if (std::ranges::find(visit.values, value) != visit.values.end()) return;
  visit.values.push_back(value);
  visit.need += slot_size(builder_.bytes(value));
}

void DeviceStore::lay_out(const Needs& needs, const StreamSchedule& schedule,
                          const KeptSlots& kept_slots, const std::vector<bool>& runs) {
  if (visits_.empty()) return;
  const Bytes activation = slot_size(chain_.activation);
  const Bytes token = slot_size(chain_.tokens);
  const Bytes scalars = slot_size(kScalarSlot * needs.scalars);
  const bool stay = residence_.home(0).input_stays;
  const Bytes tokens = token * needs.tokens;
  const Bytes rings = activation * needs.activations + tokens;
  std::vector<Stay> kept = kept_here(schedule, kept_slots, runs);
  std::vector<Stay> sums = sums_here(schedule);
  const Bytes shared = share_region(kept, sums);
  const Bytes leaving = largest_leaving(chain_, schedule, runs);
  // Whole slots, since a workspace begins where a slot could.
  const Bytes beside = region_ + slot_size(needs.workspace) + rings + shared +
                       leaving * schedule.saved_slots + scalars + needs.inputs;
  const Bytes left = needs.limit - beside;
  const RegionSizes sizes = region_sizes(visits_);
  needs_ = {beside + sizes.least, beside + sizes.full};
  const Bytes region = std::clamp(left, sizes.least, sizes.full);
  roomy_ = region > sizes.least;
  lay_out_visits(visits_, builder_.values(), region_, region);
  Bytes end = region_ + region;
  activations_ = SlotRing(end, activation, needs.activations);
  end += activation * needs.activations;
  if (!stay) tokens_ = SlotRing(end, token, needs.tokens);
  if (!stay) end += tokens;
  for (const Stay& each : kept) {
    const BlockId block(each.id);
    kept_.emplace(block, SlotPool(end + each.offset, slot_size(chain_.blocks[block].saved), 0));
  }
  for (const Stay& each : sums) {
    own_.set(ValueId(each.id), end + each.offset);
  }
  end += shared;
  saved_ = SlotRing(end, leaving, schedule.saved_slots);
  scalars_end_ = end + leaving * schedule.saved_slots;
  inputs_first_ = scalars_end_ + scalars;
  if (stay) staying_tokens_ = SlotPool(inputs_first_, token, needs.tokens - needs.tokens_in_use);
  if (stay) inputs_first_ += tokens;
  inputs_ = SlotPool(inputs_first_, activation, schedule.spare_slots);
}

std::vector<Stay> DeviceStore::kept_here(const StreamSchedule& schedule,
                                         const KeptSlots& kept_slots,
                                         const std::vector<bool>& runs) const {
  std::vector<Stay> stays;
  for (const BlockId b : chain_.blocks.ids()) {
    if (policy_of(schedule.policies, b) != ActivationPolicy::keep || !runs[b.index()]) continue;
    const Bytes size = slot_size(chain_.blocks[b].saved) * kept_slots[b];
    stays.push_back(stay_of(schedule, device_, b, Direction::backward, size));
  }
  return stays;
}

bool DeviceStore::keeps(ValueKind sum, int block) const {
  return sum == ValueKind::rounded ? residence_.keeps_rounded(device_, block)
                                   : residence_.keeps_sum(device_, block);
}

/// From their first backward to the end of the step, where they share with what forward keeps.
std::vector<Stay> DeviceStore::sums_here(const StreamSchedule& schedule) const {
  std::vector<Stay> stays;
  if (!residence_.keeps_activations()) return stays;
  for (const BlockId b : chain_.blocks.ids()) {
    for (const ValueKind kind : kSums) {
      if (!keeps(kind, b)) continue;
      const ChainBlock& block = chain_.blocks[b];
      const Bytes size = kind == ValueKind::rounded ? block.rounded : block.gradients;
      stays.push_back(stay_of(schedule, device_, b, Direction::forward, slot_size(size)));
      stays.back().last = schedule.visits.size();
      stays.back().id = builder_.value(kind, b, -1).number();
    }
  }
  return stays;
}

std::optional<InstanceId> DeviceStore::staying(ValueKind kind, int block) {
  if (kind == ValueKind::weight && residence_.at_home(device_, block)) {
    return builder_.home(kind, block);
  }
  const ValueId value = builder_.value(kind, block, -1);
  const auto own = own_.find(value);
  return own ? std::optional(at(value, *own)) : std::nullopt;
}

InstanceId DeviceStore::in_visit(std::size_t visit, ValueKind kind, int block) {
  if (const auto stays = staying(kind, block)) return *stays;
  const ValueId value = builder_.value(kind, block, -1);
  const VisitMemory& memory = visits_[visit];
  const auto needed = std::ranges::find(memory.values, value);
  FERRY_CHECK(needed != memory.values.end(), "a visit has room for what it needs");
  return at(value, memory.offsets[static_cast<std::size_t>(needed - memory.values.begin())]);
}

SlotPool* DeviceStore::pool_of(ValueId value) {
  const Value& held = builder_.values()[value];
  if (held.kind == ValueKind::saved) {
    const auto kept = kept_.find(held.block);
    return kept == kept_.end() ? nullptr : &kept->second;
  }
  if (held.kind == ValueKind::tokens) {
    return residence_.home(0).input_stays ? &staying_tokens_ : nullptr;
  }
  return residence_.home(held.block).input_stays || held_.find(value) ? &inputs_ : nullptr;
}

SlotRing& DeviceStore::ring_of(ValueId value) {
  const ValueKind kind = builder_.values()[value].kind;
  if (kind == ValueKind::saved) return saved_;
  return kind == ValueKind::tokens ? tokens_ : activations_;
}

std::optional<InstanceId> DeviceStore::find(ValueId value) {
  if (pool_of(value) != nullptr) {
    const auto held = held_.find(value);
    return held ? std::optional(at(value, *held)) : std::nullopt;
  }
  const auto offset = ring_of(value).find(value);
  if (!offset) return std::nullopt;
  return at(value, *offset);
}

InstanceId DeviceStore::take(ValueId value, std::span<const ValueId> kept) {
  if (SlotPool* pool = pool_of(value)) return hold(value, *pool);
  return at(value, ring_of(value).take(value, kept));
}

InstanceId DeviceStore::land(ValueId value) { return hold(value, inputs_); }

InstanceId DeviceStore::hold(ValueId value, SlotPool& pool) {
  const Bytes offset = pool.take();
  held_.set(value, offset);
  return at(value, offset);
}

void DeviceStore::let_go(ValueId value) {
  SlotPool* pool = pool_of(value);
  if (pool == nullptr) return;
  const auto slot = held_.find(value);
  FERRY_CHECK(slot.has_value(), "only what is here can be let go");
  pool->give_back(*slot);
  held_.erase(value);
}

InstanceId DeviceStore::scalar(ValueKind kind, BlockId block, int micro_batch) {
  const InstanceId made = at(builder_.value(kind, block, micro_batch), scalars_end_);
  scalars_end_ += kScalarSlot;
  return made;
}

}  // namespace ferry
