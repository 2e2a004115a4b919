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

// Beside what lies there, on either side.
Bytes StagingRegion::take(ValueId value, Bytes size) {
  const Bytes end = parts_.back().offset + parts_.back().size;
  FERRY_CHECK(Bytes{} < size && size <= end, "a region holds each of its values");
  Bytes chosen;
  int oldest = last_use(chosen, size);
  const auto consider = [&](Bytes offset) {
    if (offset < Bytes{} || offset + size > end) return;
    const int used = last_use(offset, size);
    if (used > oldest || (used == oldest && offset >= chosen)) return;
    oldest = used;
    chosen = offset;
  };
  for (const Part& part : parts_) {
    consider(part.offset);
    consider(part.offset + part.size - size);
  }
  clear(chosen, size);
  const auto behind = std::ranges::upper_bound(parts_, chosen, {}, &Part::offset);
  parts_.insert(behind, {chosen, size, value, ++turn_});
  return first_ + chosen;
}

int StagingRegion::last_use(Bytes offset, Bytes size) const {
  int last = 0;
  for (const Part& part : parts_) {
    const bool meets = part.offset < offset + size && offset < part.offset + part.size;
    if (meets) last = std::max(last, part.used);
  }
  return last;
}

/// What is left of others on either side is no value any more, but keeps the turn of its last use.
void StagingRegion::clear(Bytes offset, Bytes size) {
  std::vector<Part> left;
  for (const Part& part : parts_) {
    const Bytes end = part.offset + part.size;
    if (end <= offset || offset + size <= part.offset) {
      left.push_back(part);
      continue;
    }
    if (part.offset < offset) left.push_back({part.offset, offset - part.offset, {}, part.used});
    if (offset + size < end) left.push_back({offset + size, end - offset - size, {}, part.used});
  }
  parts_ = std::move(left);
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

}  // namespace

StagingBytes staging_bytes(const Chain& chain, const StreamSchedule& schedule,
                           std::span<const Bytes> landing, bool reads_apart) {
  std::vector<Bytes> sizes(chain.size());
  const auto room_for = [&](int count, bool BlockHome::*passes, const auto& size_of) {
    bool any = false;
    for (std::size_t b = 0; b < schedule.homes.size(); ++b) {
      const bool passing = schedule.homes[b].*passes;
      sizes[b] = passing ? size_of(b) : Bytes{};
      any = any || passing;
    }
    return any ? room_for_neighbours(sizes, count) : Bytes{};
  };
  const auto pages_of = [&](Bytes ChainBlock::*bytes) {
    return
        [&chain, bytes](std::size_t b) { return round_up(chain.blocks[b].*bytes, kHomeAlignment); };
  };
  const StagingRoom& room = schedule.staging;
  StagingBytes bytes;
  bytes.states = room.pieces > 0 ? room_for_pieces(chain, schedule, room.pieces)
                                 : room_for(room.states, &BlockHome::state_on_drive,
                                            pages_of(&ChainBlock::states));
  bytes.weights =
      room_for(room.weights, &BlockHome::weight_on_drive, pages_of(&ChainBlock::weights));
  if (reads_apart) bytes.updated = bytes.weights;
  bytes.sums =
      room_for(room.sums, &BlockHome::sum_passes, [&](std::size_t b) { return landing[b]; });
  if (std::ranges::count(schedule.activations_on_drive, true) > 0) {
    bytes.activations = round_up(chain.activation, kHomeAlignment) * room.activations;
  }
  return bytes;
}

}  // namespace ferry
