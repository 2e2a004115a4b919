#include "planner/write/activation_policy.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include "planner/write/allocate.h"

namespace ferry {
namespace {

// Of the blocks that may stay, of the others that may leave, and of these that rest in DRAM; the
// rest of them goes to drives.
struct Shares {
  double stay;
  double leave;
  double in_dram = 1;
};
constexpr std::array kShares = {
    Shares{0, 0.125},    Shares{0, 0.25}, Shares{0, 0.5},     Shares{0, 1},   Shares{0.125, 0},
    Shares{0.125, 0.25}, Shares{0.25, 0}, Shares{0.25, 0.25}, Shares{0.5, 0}, Shares{0.5, 0.25},
    Shares{1, 0},        Shares{1, 0.25}, Shares{1, 0.5},     Shares{1, 1}};
constexpr std::array kDriveShares = {Shares{0, 0.25, 0}, Shares{0, 0.5, 0}, Shares{0, 1, 0},
                                     Shares{0, 1, 0.25}, Shares{0, 1, 0.5}, Shares{0.25, 0.25, 0},
                                     Shares{0.25, 1, 0}, Shares{0.5, 1, 0}};

/// What a step saves per micro-batch that is kept.
double saved_micros(const ChainBlock& block) {
  const Micros recomputes = block.forward + block.backward;
  return (recomputes - block.saving_forward - block.saved_backward).count;
}

// By falling worth, of equals as `order` has them; without those that are worth nothing.
std::vector<BlockId> by_worth(std::vector<BlockId> order, const IdVector<BlockId, double>& worth) {
  std::erase_if(order, [&](BlockId b) { return worth[b] <= 0; });
  std::stable_sort(order.begin(), order.end(),
                   [&](BlockId a, BlockId b) { return worth[a] > worth[b]; });
  return order;
}

std::vector<BlockId> by_link_density(const Chain& chain, const KeptSlots& slots) {
  IdVector<BlockId, double> worth;
  for (const BlockId b : chain.blocks.ids()) {
    const ChainBlock& block = chain.blocks[b];
    const auto bytes = static_cast<double>(block.saved.count);
    worth.push_back(bytes > 0 && slots[b] > 0 ? saved_micros(block) / bytes : 0.0);
  }
  return by_worth(spread_evenly(chain.size()), worth);
}

std::size_t share_of(std::size_t count, double share) {
  return static_cast<std::size_t>(static_cast<double>(count) * share + 0.5);
}

}  // namespace

std::vector<BlockId> deepest_first(const Chain& chain) {
  std::vector<BlockId> order(chain.blocks.ids().begin(), chain.blocks.ids().end());
  std::ranges::reverse(order);
  return order;
}

// The golden ratio's multiples, modulo 1.
std::vector<BlockId> spread_evenly(std::size_t blocks) {
  constexpr double kGoldenRatio = 0.6180339887498949;
  std::vector<BlockId> order;
  IdVector<BlockId, bool> taken(blocks, false);
  for (std::size_t i = 0; order.size() < blocks; ++i) {
    const double turns = static_cast<double>(i + 1) * kGoldenRatio;
    const double at = (turns - std::floor(turns)) * static_cast<double>(blocks);
    const BlockId block(static_cast<int>(at));
    if (taken[block]) continue;
    taken[block] = true;
    order.push_back(block);
  }
  return order;
}

ActivationPolicy policy_of(const ActivationPolicies& policies, BlockId block) {
  return policies.empty() ? ActivationPolicy::recompute : policies[block];
}

bool saves_any(const ActivationPolicies& policies) {
  return std::ranges::any_of(
      policies, [](ActivationPolicy policy) { return policy != ActivationPolicy::recompute; });
}

Bytes forward_workspace(const ChainBlock& block, bool saves) {
  return saves ? block.saving_workspace : block.forward_workspace;
}

Bytes backward_workspace(const ChainBlock& block, bool saves) {
  return saves ? block.saved_backward_workspace : block.backward_workspace;
}

ActivationPolicies policies_of(const Plan& plan) {
  ActivationPolicies policies(plan.blocks.size(), ActivationPolicy::recompute);
  for (const Instance& instance : plan.instances) {
    const Value& value = plan.values[instance.value];
    if (value.kind != ValueKind::saved) continue;
    ActivationPolicy& policy = policies[value.block];
    const PlaceKind place = plan.places[instance.place].kind;
    if (place == PlaceKind::drive) policy = ActivationPolicy::swap_to_drive;
    if (place == PlaceKind::host && policy != ActivationPolicy::swap_to_drive) {
      policy = ActivationPolicy::swap_to_host;
    }
    if (policy == ActivationPolicy::recompute) policy = ActivationPolicy::keep;
  }
  return policies;
}

const char* to_string(ActivationPolicy policy) {
  switch (policy) {
    case ActivationPolicy::keep:
      return "keep";
    case ActivationPolicy::swap_to_host:
      return "swap to host";
    case ActivationPolicy::swap_to_drive:
      return "swap to drive";
    case ActivationPolicy::recompute:
      return "recompute";
  }
  return "?";
}

std::string policies_text(const Plan& plan) {
  if (plan.timing_only || plan.mode != PlanMode::train) return {};
  const ActivationPolicies policies = policies_of(plan);
  std::string text;
  for (const ActivationPolicy policy :
       {ActivationPolicy::keep, ActivationPolicy::swap_to_host, ActivationPolicy::swap_to_drive,
        ActivationPolicy::recompute}) {
    const auto count = std::count(policies.begin(), policies.end(), policy);
    if (count == 0) continue;
    text += text.empty() ? "" : ", ";
    text += std::to_string(count) + (text.empty() ? " blocks " : " ") + to_string(policy);
  }
  return text;
}

std::vector<BlockId> by_device_density(const Chain& chain, const KeptSlots& slots,
                                       int micro_batches) {
  IdVector<BlockId, double> worth;
  for (const BlockId b : chain.blocks.ids()) {
    const auto bytes = static_cast<double>(chain.blocks[b].saved.count) * slots[b];
    worth.push_back(bytes > 0 ? saved_micros(chain.blocks[b]) * micro_batches / bytes : 0.0);
  }
  return by_worth(deepest_first(chain), worth);
}

KeptSlots one_slot_each(const Chain& chain) { return KeptSlots(chain.size(), 1); }

std::vector<DeviceRoom> rooms_of(const Plan& plan) {
  std::vector<DeviceRoom> rooms;
  for (const PlaceId id : plan.places.ids()) {
    const Place& place = plan.places[id];
    if (place.kind != PlaceKind::device) continue;
    rooms.push_back({slots_end(plan, id), place.workspace, place.budget});
  }
  return rooms;
}

ActivationPolicies keep_what_fits(const Chain& chain, std::span<const BlockId> order,
                                  const KeptSlots& slots, std::span<const int> device_of_block,
                                  std::vector<DeviceRoom> rooms) {
  ActivationPolicies policies = keep_none(chain);
  std::vector<bool> full(rooms.size(), false);
  for (const BlockId b : order) {
    const int device = device_of_block[b.index()];
    if (full[device]) continue;
    const ChainBlock& block = chain.blocks[b];
    DeviceRoom wanted = rooms[device];
    wanted.slots_end =
        round_up(wanted.slots_end, slot_size(1_B)) + slot_size(block.saved) * slots[b];
    wanted.workspace = std::max(wanted.workspace, block.saving_workspace);
    full[device] = wanted.slots_end + wanted.workspace > wanted.budget;
    if (full[device]) continue;
    rooms[device] = wanted;
    policies[b] = ActivationPolicy::keep;
  }
  return policies;
}

ActivationPolicies keep_none(const Chain& chain) {
  return ActivationPolicies(chain.size(), ActivationPolicy::recompute);
}

ActivationPolicies keep_all(const Chain& chain, const KeptSlots& slots) {
  ActivationPolicies policies = keep_none(chain);
  for (const BlockId b : chain.blocks.ids()) {
    if (chain.blocks[b].saved > Bytes{} && slots[b] > 0) policies[b] = ActivationPolicy::keep;
  }
  return policies;
}

ActivationPolicies swap_all(const Chain& chain, const KeptSlots& slots, ActivationPolicy policy) {
  ActivationPolicies policies = keep_none(chain);
  for (const BlockId b : chain.blocks.ids()) {
    if (chain.blocks[b].saved > Bytes{} && slots[b] > 0) policies[b] = policy;
  }
  return policies;
}

ActivationPolicies stay_and_leave(const Chain& chain, const KeptSlots& slots, int micro_batches,
                                  std::size_t stay, std::size_t leave) {
  ActivationPolicies policies = keep_none(chain);
  const std::vector<BlockId> staying = by_device_density(chain, slots, micro_batches);
  stay = std::min(stay, staying.size());
  for (std::size_t i = 0; i < stay; ++i) policies[staying[i]] = ActivationPolicy::keep;
  for (const BlockId b : by_link_density(chain, slots)) {
    if (leave == 0) break;
    if (policies[b] == ActivationPolicy::keep) continue;
    policies[b] = ActivationPolicy::swap_to_host;
    --leave;
  }
  return policies;
}

std::vector<ActivationPolicies> streaming_policies(const Chain& chain, const KeptSlots& slots,
                                                   int micro_batches, bool to_drives) {
  const std::vector<BlockId> staying = by_device_density(chain, slots, micro_batches);
  const std::vector<BlockId> leaving = by_link_density(chain, slots);
  std::vector<ActivationPolicies> lists;
  for (const Shares& shares : to_drives ? std::span<const Shares>(kDriveShares) : kShares) {
    ActivationPolicies policies = keep_none(chain);
    const std::size_t stay = share_of(staying.size(), shares.stay);
    for (std::size_t i = 0; i < stay; ++i) policies[staying[i]] = ActivationPolicy::keep;
    const std::size_t leave = share_of(leaving.size() - stay, shares.leave);
    const std::size_t in_dram = share_of(leave, shares.in_dram);
    std::size_t left = 0;
    for (const BlockId b : leaving) {
      if (left == leave) break;
      if (policies[b] == ActivationPolicy::keep) continue;
      policies[b] =
          left++ < in_dram ? ActivationPolicy::swap_to_host : ActivationPolicy::swap_to_drive;
    }
    const bool known = std::find(lists.begin(), lists.end(), policies) != lists.end();
    if (!known && saves_any(policies)) lists.push_back(std::move(policies));
  }
  return lists;
}

}  // namespace ferry
