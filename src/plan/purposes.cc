#include "plan/purposes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/enum_index.h"

namespace ferry {
namespace {

Purpose purpose_of(ValueKind kind) {
  switch (kind) {
    case ValueKind::weight:
      return Purpose::weights;
    case ValueKind::state:
    case ValueKind::original:
      return Purpose::optimizer;
    case ValueKind::gradient:
    case ValueKind::rounded:
      return Purpose::gradients;
    case ValueKind::activation:
    case ValueKind::activation_gradient:
    case ValueKind::saved:
      return Purpose::activations;
    case ValueKind::norm:
    case ValueKind::tokens:
    case ValueKind::loss:
    case ValueKind::clip:
      break;
  }
  return Purpose::tokens;
}

}  // namespace

const char* to_string(Purpose purpose) {
  constexpr std::array<const char*, kPurposes.size()> kWords = {
      "weights", "optimizer state", "gradients", "activations", "tokens, scalars", "workspace"};
  return kWords[to_index(purpose)];
}

std::map<Purpose, Bytes> bytes_by_purpose(const Plan& plan, PlaceId place) {
  struct Slot {
    Bytes begin, end;
    Purpose purpose;
  };
  std::vector<Slot> slots;
  for (const Instance& instance : plan.instances) {
    if (instance.place != place) continue;
    const Value& value = plan.values[instance.value];
    slots.push_back({instance.offset, instance.offset + value.bytes, purpose_of(value.kind)});
  }
  std::ranges::sort(slots, {}, &Slot::begin);
  std::map<Purpose, Bytes> sums;
  sums[Purpose::workspace] = plan.places[place].workspace;
  std::map<Bytes, int> edges;  // where something begins or ends
  for (const Slot& slot : slots) edges[slot.begin] = edges[slot.end] = 0;
  std::vector<const Slot*> open;
  std::size_t next = 0;
  for (auto edge = edges.begin(); edge != edges.end() && std::next(edge) != edges.end(); ++edge) {
    std::erase_if(open, [&](const Slot* slot) { return slot->end <= edge->first; });
    while (next < slots.size() && slots[next].begin <= edge->first) open.push_back(&slots[next++]);
    if (open.empty()) continue;
    const Slot* first = *std::ranges::min_element(open, {}, &Slot::purpose);
    sums[first->purpose] += std::next(edge)->first - edge->first;
  }
  return sums;
}

}  // namespace ferry
