#include "planner/write/staging.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "planner/write/builder.h"

namespace ferry {

StagingRegion::StagingRegion(Bytes first, Bytes size)
    : first_(first), parts_{{.offset = {}, .size = size, .value = {}, .used = 0}} {}

std::optional<Bytes> StagingRegion::find(ValueId value) {
  const auto part = std::ranges::find(parts_, value, &Part::value);
  if (part == parts_.end()) return std::nullopt;
  part->used = ++turn_;
  return first_ + part->offset;
}

// Beside what lies there, on either side. What is left of others beside the value is no value any
// more, but keeps the turn of its last use.
Bytes StagingRegion::take(ValueId value, Bytes size) {
  const Bytes end = parts_.back().offset + parts_.back().size;
  FERRY_CHECK(Bytes{} < size && size <= end, "a region holds each of its values");
  const auto oldest_part = std::ranges::min_element(parts_, {}, &Part::used);
  if (oldest_part->size == size) {  // as in a ring: no bytes were used longer ago
    *oldest_part = {oldest_part->offset, size, value, ++turn_};
    return first_ + oldest_part->offset;
  }
  auto chosen = parts_.cbegin();  // the first part of which it takes bytes
  Bytes offset;
  int oldest = last_use(chosen, size);
  const auto consider = [&](Parts::const_iterator first, Bytes from) {
    const int used = last_use(first, from + size);
    if (used > oldest || (used == oldest && from >= offset)) return;
    oldest = used;
    chosen = first;
    offset = from;
  };
  for (auto part = parts_.cbegin(); part != parts_.cend(); ++part) {
    if (part->offset + size <= end) consider(part, part->offset);
    const Bytes before = part->offset + part->size - size;
    if (before >= Bytes{}) consider(part_at(part, before), before);
  }
  replace(chosen, {offset, size, value, ++turn_});
  return first_ + offset;
}

/// Of the part and those behind it as far as `end`.
int StagingRegion::last_use(Parts::const_iterator part, Bytes end) const {
  int last = 0;
  for (; part != parts_.cend() && part->offset < end; ++part) last = std::max(last, part->used);
  return last;
}

/// The part that has the byte, which is the given one or lies before it.
StagingRegion::Parts::const_iterator StagingRegion::part_at(Parts::const_iterator part,
                                                            Bytes offset) const {
  while (part->offset > offset) --part;
  return part;
}

/// `first`: the part that has the first byte of the new one.
void StagingRegion::replace(Parts::const_iterator first, const Part& made) {
  const Bytes end = made.offset + made.size;
  auto behind = first;
  while (behind != parts_.cend() && behind->offset < end) ++behind;
  const Part& last = *std::prev(behind);
  ShortVector<Part, 3> parts;
  if (first->offset < made.offset) {
    parts.push_back({first->offset, made.offset - first->offset, {}, first->used});
  }
  parts.push_back(made);
  if (const Bytes left = last.offset + last.size - end; left > Bytes{}) {
    parts.push_back({end, left, {}, last.used});
  }
  parts_.insert(parts_.erase(first, behind), parts.begin(), parts.end());
}

Bytes room_for_neighbours(std::span<const Bytes> sizes, int count) {
  Bytes together, most;
  std::size_t first = 0;  // of those together, but for empty ones
  int neighbours = 0;
  for (const Bytes size : sizes) {
    if (size <= Bytes{}) continue;
    together += size;
    if (++neighbours > count) {
      while (sizes[first] <= Bytes{}) ++first;
      together = together - sizes[first++];
    }
    most = std::max(most, together);
  }
  return most;
}

// What is at home on a device never leaves it, but for a tied head's sum.
std::vector<Bytes> landing_sums(const Chain& chain, const Residence& residence) {
  const BlockId tied = chain.blocks.back().reads_weight;
  std::vector<Bytes> landing;
  for (const BlockId b : chain.blocks.ids()) {
    const ChainBlock& block = chain.blocks[b];
    const bool stays =
        residence.home(b.number()).on_device && b != tied && !block.reads_weight.valid();
    const Bytes sum = residence.lands_whole(b.number()) ? landing_sum(block) : block.gradients;
    landing.push_back(stays ? Bytes{} : round_up(sum, kHomeAlignment));
  }
  return landing;
}

namespace {

// Of what rests on drives, in the order of the chain.
Bytes room_for_pieces(const Chain& chain, const StreamSchedule& schedule, int count) {
  std::vector<Bytes> pieces;
  for (std::size_t b = 0; b < schedule.homes.size(); ++b) {
    if (!schedule.homes[b].state_on_drive) continue;
    const ChainBlock& block = chain.blocks[b];
    for (int p = 0; p < state_pieces(block); ++p) {
      pieces.push_back(round_up(piece_bytes(block, p), kHomeAlignment));
    }
  }
  return room_for_neighbours(pieces, count);
}

// Of values of one kind, which pass or do not.
template <typename SizeOf>
Bytes room_for(const StreamSchedule& schedule, int count, bool BlockHome::*passes,
               const SizeOf& size_of) {
  std::vector<Bytes> sizes;
  for (std::size_t b = 0; b < schedule.homes.size(); ++b) {
    if (schedule.homes[b].*passes) sizes.push_back(size_of(b));
  }
  return room_for_neighbours(sizes, count);
}

auto pages_of(const Chain& chain, Bytes ChainBlock::*bytes) {
  return
      [&chain, bytes](std::size_t b) { return round_up(chain.blocks[b].*bytes, kHomeAlignment); };
}

}  // namespace

Bytes room_for_states(const Chain& chain, const StreamSchedule& schedule) {
  const StagingRoom& room = schedule.staging;
  if (room.pieces > 0) return room_for_pieces(chain, schedule, room.pieces);
  return room_for(schedule, room.states, &BlockHome::state_on_drive,
                  pages_of(chain, &ChainBlock::states));
}

Bytes room_for_weights(const Chain& chain, const StreamSchedule& schedule) {
  return room_for(schedule, schedule.staging.weights, &BlockHome::weight_on_drive,
                  pages_of(chain, &ChainBlock::weights));
}

Bytes room_for_sums(const StreamSchedule& schedule, std::span<const Bytes> landing) {
  return room_for(schedule, schedule.staging.sums, &BlockHome::sum_passes,
                  [&](std::size_t b) { return landing[b]; });
}

Bytes room_for_activations(const Chain& chain, const StreamSchedule& schedule) {
  if (std::ranges::count(schedule.activations_on_drive, true) == 0) return {};
  return round_up(chain.activation, kHomeAlignment) * schedule.staging.activations;
}

}  // namespace ferry
