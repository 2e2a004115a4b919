#include "train/peer_check.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/error.h"
#include "device/straight_copy.h"
#include "device/tensor_views.h"

namespace ferry {
namespace {

constexpr Bytes kMost = 4_MiB;  // that is sent: what is wrong with a way shows in the first pages

struct Ends {
  Bytes from, to;  // offsets of the slots
  Bytes size;
};
using Ways = std::map<std::pair<PlaceId, PlaceId>, Ends>;

void find_ways(const Plan& plan, Ways& ways) {
  for (const Task& task : plan.tasks) {
    if (!goes_between_devices(plan, task)) continue;
    const Instance& from = plan.instances[task.reads.front()];
    const Instance& to = plan.instances[task.writes.front()];
    Ends& most = ways[{from.place, to.place}];
    if (task.bytes > most.size) most = {from.offset, to.offset, task.bytes};
  }
}

std::string name_of(const PlaceMemory& place) {
  return place.name + " (" + place.device->name() + ")";
}

void check(PlaceMemory& from, PlaceMemory& to, const Ends& ends) {
  const Bytes size = std::min(ends.size, kMost);
  const auto part = [&](const PlaceMemory& place, Bytes offset) {
    return view(place.slab, offset, {size.count}, at::kByte);
  };
  if (arrive_whole(*from.device, part(from, ends.from), *to.device, part(to, ends.to))) return;
  throw ResourceError("copies straight from " + name_of(from) + " to " + name_of(to) +
                      " arrive with wrong bytes: sent " + to_string(size) +
                      " of a pattern and read it back; peer-to-peer of this box cannot be trusted"
                      "\n  try: plan.without: p2p, or no p2p in the machine file");
}

}  // namespace

void check_peers(std::span<const Plan* const> plans, Places& places) {
  Ways ways;
  for (const Plan* plan : plans) find_ways(*plan, ways);
  for (const auto& [way, ends] : ways) check(places[way.first], places[way.second], ends);
}

}  // namespace ferry
