#include "planner/write/visit_stores.h"

#include <algorithm>
#include <utility>

namespace ferry {

VisitStores::VisitStores(const StreamParts& parts, PlanBuilder& builder, const HostStore& host,
                         std::span<const TokenUse> token_uses, std::vector<Bytes> inputs)
    : parts_(parts), inputs_(std::move(inputs)) {
  for (int d = 0; d < parts_.schedule.devices; ++d) {
    const Bytes homes_end = host.homes_end(builder.device(d).place);
    stores_.emplace_back(builder, parts_.chain, parts_.residence, d, homes_end);
  }
  add_visits();
  const KeptSlots slots = kept_slots(parts_.chain, parts_.schedule);
  for (int d = 0; d < parts_.schedule.devices; ++d) lay_out(d, slots, token_uses);
}

void VisitStores::need_for_forward(const StageVisit& visit) {
  for (int b = visit.first; b < visit.end; ++b) {
    if (!has_forward(parts_.chain.blocks[b])) continue;
    stores_[visit.device].need(ValueKind::weight, weight_owner(parts_.chain, b));
  }
}

void VisitStores::need_for_backward(const StageVisit& visit) {
  const Chain& chain = parts_.chain;
  const bool completes = parts_.visits.completes_sums(visit);
  DeviceStore& store = stores_[visit.device];
  for (int b = visit.end - 1; b >= visit.first; --b) {
    if (b > 0) store.need(ValueKind::weight, weight_owner(chain, b));
  }
  for (int b = visit.end - 1; b >= visit.first; --b) {
    if (chain.blocks[b].gradients > Bytes{}) store.need(ValueKind::gradient, b);
    if (parts_.residence.rounds(b) && completes) store.need(ValueKind::rounded, b);
    const int head = tied_head(chain, b);
    if (head >= 0 && completes) store.need(ValueKind::gradient, head);
  }
}

// A stage whose backward follows its forward on the device stays there between the two.
void VisitStores::add_visits() {
  std::vector<const StageVisit*> latest(stores_.size(), nullptr);
  std::vector<std::size_t> number(stores_.size());
  for (const StageVisit& visit : parts_.visits.all()) {
    const StageVisit* before = std::exchange(latest[visit.device], &visit);
    const bool goes_on = before != nullptr && before->direction == Direction::forward &&
                         visit.direction == Direction::backward && before->first == visit.first &&
                         before->end == visit.end;
    if (!goes_on) number[visit.device] = stores_[visit.device].add_visit();
    slots_.push_back({number[visit.device], goes_on});
    if (visit.direction != Direction::backward) need_for_forward(visit);
    if (visit.direction != Direction::forward) need_for_backward(visit);
  }
}

void VisitStores::lay_out(int device, const KeptSlots& slots,
                          std::span<const TokenUse> token_uses) {
  const std::vector<bool> runs = blocks_on(parts_.chain, parts_.schedule, device);
  const bool tokens = runs.front() || runs.back();
  const int in_use = parts_.residence.home(0).input_stays ? tokens_in_use(token_uses, device) : 1;
  stores_[device].lay_out({.limit = device_limit(parts_.question, device),
                           .workspace = parts_.residence.workspace(device),
                           .activations = passing_activations(),
                           .tokens = tokens ? token_slots(in_use) : 0,
                           .tokens_in_use = in_use,
                           .inputs = inputs_[device],
                           .scalars = scalars_of(device)},
                          parts_.schedule, slots, runs);
}

int VisitStores::passing_activations() const {
  for (int b = 1; b < static_cast<int>(parts_.chain.size()); ++b) {
    if (!parts_.residence.home(b).input_stays) return parts_.schedule.activation_slots;
  }
  return 0;
}

int VisitStores::token_slots(int in_use) const {
  const int slots = in_use + parts_.schedule.token_slots - 1;
  const bool stay = parts_.residence.home(0).input_stays;
  return stay ? std::min(slots, parts_.question.micro_batches) : slots;
}

// The norms and losses that arise on a device, and the scale that it updates by.
std::int64_t VisitStores::scalars_of(int device) const {
  const bool train = parts_.question.mode == PlanMode::train;
  std::int64_t count = train && parts_.question.clips && updates_any(device) ? 1 : 0;
  for (const StageVisit& visit : parts_.visits.all()) {
    if (visit.device != device) continue;
    const bool ends = visit.direction != Direction::forward || !train;
    const int head = static_cast<int>(parts_.chain.size()) - 1;
    if (ends && contains(visit, head)) count += visit.end_batch - visit.first_batch;
    if (visit.direction != Direction::forward && parts_.visits.completes_sums(visit)) {
      count += visit.end - visit.first;
    }
  }
  return count;
}

bool VisitStores::updates_any(int device) const {
  for (int b = 0; b < static_cast<int>(parts_.chain.size()); ++b) {
    if (parts_.residence.updates(device, b)) return true;
  }
  return false;
}

InstanceId VisitStores::in_visit(std::size_t visit, ValueKind kind, int block) {
  return stores_[parts_.visits[visit].device].in_visit(slots_[visit].number, kind, block);
}

std::span<const ValueId> VisitStores::passing(std::size_t visit) const {
  return stores_[parts_.visits[visit].device].passing(slots_[visit].number);
}

std::vector<DeviceNeed> VisitStores::needs() const {
  std::vector<DeviceNeed> needs;
  for (const DeviceStore& store : stores_) needs.push_back(store.needs());
  return needs;
}

std::vector<Bytes> VisitStores::inputs() const {
  std::vector<Bytes> taken;
  for (const DeviceStore& store : stores_) taken.push_back(store.inputs());
  return taken;
}

bool VisitStores::is_crowded() const {
  for (std::size_t d = 0; d < stores_.size(); ++d) {
    if (stores_[d].has_roomy_region() && stores_[d].inputs() > inputs_[d]) return true;
  }
  return false;
}

}  // namespace ferry
