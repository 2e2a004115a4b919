#include "planner/write/host_store.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "planner/write/allocate.h"
#include "planner/write/host_slots.h"

namespace ferry {

HostStore::HostStore(PlanBuilder& builder, const Chain& chain, const StreamSchedule& schedule,
                     const Residence& residence)
    : builder_(builder),
      chain_(chain),
      schedule_(schedule),
      residence_(residence),
      homes_(schedule.homes.begin(), schedule.homes.end()),
      crossing_(kBehind, slot_size(chain.activation), schedule.spare_crossings) {
  homes_.resize(chain.size());
  const Queues& queues = builder.queues();
  FERRY_CHECK(!schedule.uses_drives() || queues.drives, "the schedule needs drives");
  for (const BlockId b : chain.blocks.ids()) {
    if (residence.rounds(b.number())) builder.value(ValueKind::rounded, b, -1);
    if (residence.updates_ahead(b.number())) builder.value(ValueKind::original, b, -1);
  }
  home_ends_ = builder.lay_out_homes([&](ValueKind kind, BlockId block, int piece) {
    const BlockHome& home = home_of(block);
    if (home.on_device) return builder.device(residence.device(block.number())).place;
    const bool on_drive = kind == ValueKind::weight
                              ? home.weight_on_drive
                              : home.state_on_drive && piece >= home.pieces_in_dram;
    return on_drive ? queues.drives->place : queues.host;
  });
  end_ = homes_end(queues.host);
  if (schedule.uses_drives()) drive_end_ = homes_end(queues.drives->place);
  const Bytes weights = room_for_weights(chain, schedule);
  weights_ = make_region(weights);
  states_ = make_region(room_for_states(chain, schedule));
  if (residence.reads_apart()) updated_ = make_region(weights);
  sums_ = make_region(room_for_sums(schedule, landing_sums(chain, residence)));
  activations_ = make_region(room_for_activations(chain, schedule));
  Bytes saved;
  for (const BlockId b : chain.blocks.ids()) {
    if (swaps_to_drive(b)) saved = std::max(saved, chain.blocks[b].saved);
  }
  const int slots = schedule.saved_slots * schedule.devices;
  saved_ = make_region(round_up(saved, kHomeAlignment) * slots);
}

Bytes HostStore::homes_end(PlaceId place) const {
  const auto end = home_ends_.find(place);
  return end == home_ends_.end() ? Bytes{} : end->second;
}

StagingRegion HostStore::make_region(Bytes size) {
  if (size > Bytes{}) end_ = round_up(end_, kHomeAlignment) + size;
  return StagingRegion(end_ - size, size);
}

/// Whole pages, since drives move nothing less.
Bytes HostStore::room_in(StagingRegion& region, ValueId value) {
  return region.take(value, round_up(builder_.bytes(value), kHomeAlignment));
}

InstanceId HostStore::on_host(ValueId value, Bytes offset) {
  return builder_.instance(value, builder_.queues().host, offset);
}

// A slot of its own on the drives, beside the homes.
InstanceId HostStore::on_drive(ValueId value) {
  const auto [at, fresh] = drive_slots_.try_emplace(value, drive_end_);
  if (fresh) drive_end_ = round_up(drive_end_ + builder_.bytes(value), kHomeAlignment);
  return builder_.instance(value, builder_.queues().drives->place, at->second);
}

InstanceId HostStore::scalar(ValueKind kind, BlockId block, int micro_batch) {
  const ValueId value = builder_.value(kind, block, micro_batch);
  const auto [at, fresh] = own_slots_.try_emplace(value, end_);
  if (fresh) end_ += round_up(builder_.bytes(value), kScalarSlot);
  return on_host(value, at->second);
}

InstanceId HostStore::staged(StagingRegion& region, ValueId value, InstanceId home,
                             ResourceId queue) {
  if (const auto offset = region.find(value)) return on_host(value, *offset);
  const InstanceId to = on_host(value, room_in(region, value));
  builder_.copy(queue, home, to);
  return to;
}

InstanceId HostStore::weight(BlockId block) {
  const InstanceId home = builder_.home(ValueKind::weight, block);
  if (!home_of(block).weight_on_drive) return home;
  return staged(weights_, builder_.value(ValueKind::weight, block, -1), home,
                builder_.queues().drives->weights_read);
}

InstanceId HostStore::weight_to_update(BlockId block) {
  if (!residence_.reads_apart()) return weight(block);
  const InstanceId home = builder_.home(ValueKind::weight, block);
  if (!home_of(block).weight_on_drive) return home;
  return staged(updated_, builder_.value(ValueKind::weight, block, -1), home,
                builder_.queues().drives->states_read);
}

// S.b, or a piece of it, which rests on the drives.
InstanceId HostStore::state(BlockId block, int piece) {
  return staged(states_, builder_.value(ValueKind::state, block, piece),
                builder_.home(ValueKind::state, block, piece),
                builder_.queues().drives->states_read);
}

InstanceId HostStore::land_sum(ValueKind kind, BlockId block) {
  const ValueId value = builder_.value(kind, block, -1);
  if (!home_of(block).sum_passes) return on_host(value, kUnplaced);
  if (const auto offset = sums_.find(value)) return on_host(value, *offset);
  return on_host(value, room_in(sums_, value));
}

void HostStore::sum_landed(ValueKind kind, BlockId block, bool waits) {
  if (!home_of(block).sum_passes || !waits) return;
  FERRY_CHECK(home_of(block).sum_on_drive, "a sum that waits has a place to do so");
  builder_.copy(builder_.queues().drives->write, sum(kind, block),
                on_drive(builder_.value(kind, block, -1)));
}

InstanceId HostStore::sum(ValueKind kind, BlockId block) {
  const ValueId value = builder_.value(kind, block, -1);
  if (!home_of(block).sum_passes) return on_host(value, kUnplaced);
  if (const auto offset = sums_.find(value)) return on_host(value, *offset);
  return staged(sums_, value, on_drive(value), builder_.queues().drives->states_read);
}

bool HostStore::swaps_to_drive(BlockId block) const {
  return policy_of(schedule_.policies, block) == ActivationPolicy::swap_to_drive;
}

bool HostStore::rests_on_drive(ValueId activation) const {
  const Value& held = builder_.values()[activation];
  if (held.kind == ValueKind::saved) return swaps_to_drive(held.block);
  return held.kind == ValueKind::activation && !schedule_.activations_on_drive.empty() &&
         schedule_.activations_on_drive[held.block.index()];
}

bool HostStore::crosses(ValueId activation) const {
  const Value& held = builder_.values()[activation];
  return held.kind != ValueKind::saved && home_of(held.block).input_stays;
}

StagingRegion& HostStore::region_of(ValueId activation) {
  const bool saved = builder_.values()[activation].kind == ValueKind::saved;
  return saved ? saved_ : activations_;
}

InstanceId HostStore::land_activation(ValueId value) {
  if (crosses(value)) return on_host(value, landed_[value] = crossing_.take());
  if (!rests_on_drive(value)) return on_host(value, kUnplaced);
  return on_host(value, room_in(region_of(value), value));
}

void HostStore::activation_landed(ValueId value) {
  if (!rests_on_drive(value)) return;
  const auto offset = region_of(value).find(value);
  builder_.copy(builder_.queues().drives->acts_write, on_host(value, *offset), on_drive(value));
}

InstanceId HostStore::activation(ValueId value) {
  if (crosses(value)) {
    const auto landed = landed_.find(value);
    FERRY_CHECK(landed != landed_.end(), "visits read what others made before");
    const Bytes offset = landed->second;
    crossing_.give_back(offset);
    landed_.erase(landed);
    return on_host(value, offset);
  }
  if (!rests_on_drive(value)) return on_host(value, kUnplaced);
  return staged(region_of(value), value, on_drive(value), builder_.queues().drives->weights_read);
}

void HostStore::update(BlockId block, InstanceId scale) {
  const InstanceId landed = sum(residence_.update_sum(block.number()), block);
  const InstanceId weights = weight_to_update(block);
  const BlockHome& home = home_of(block);
  const InstanceId states =
      home.state_on_drive ? InstanceId() : builder_.home(ValueKind::state, block);
  if (residence_.updates_ahead(block.number())) {
    const InstanceId original = on_host(builder_.value(ValueKind::original, block, -1), kUnplaced);
    const PlanBuilder::UpdateInstances instances{weights, states, landed, scale, original};
    if (scale.valid()) return builder_.redo(block, instances);
    return builder_.update(block, builder_.queues().update, instances);
  }
  const PlanBuilder::UpdateInstances instances{weights, states, landed, scale, {}};
  if (home.state_on_drive) {
    update_from_drives(block, instances);
  } else {
    builder_.update(block, builder_.queues().update, instances);
  }
  if (!home.weight_on_drive) return;
  builder_.copy(builder_.queues().drives->write, weights, builder_.home(ValueKind::weight, block));
}

// Piece by piece, each that rests on drives written back as soon as it is updated.
void HostStore::update_from_drives(BlockId block, PlanBuilder::UpdateInstances instances) {
  const ChainBlock& costs = chain_.blocks[block];
  for (int p = 0; p < state_pieces(costs); ++p) {
    const int piece = piece_number(costs, p);
    if (p < home_of(block).pieces_in_dram) {
      instances.states = builder_.home(ValueKind::state, block, piece);
      builder_.update(block, builder_.queues().update, instances, piece);
      continue;
    }
    instances.states = state(block, piece);
    builder_.update(block, builder_.queues().update, instances, piece);
    builder_.copy(builder_.queues().drives->write, instances.states,
                  builder_.home(ValueKind::state, block, piece));
  }
}

}  // namespace ferry
