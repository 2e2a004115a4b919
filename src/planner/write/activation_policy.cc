#include "planner/write/activation_policy.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

#include "planner/write/allocate.h"

namespace ferry {
namespace {

std::size_t index(int id) { return static_cast<std::size_t>(id); }

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

double saved_micros(const ChainBlock& block) {
  return block.backward.count - block.saved_backward.count;
}

// By falling worth, of equals as `order` has them; without those that are worth nothing.
std::vector<int> by_worth(std::vector<int> order, const std::vector<double>& worth) {
  std::erase_if(order, [&](int b) { return worth[index(b)] <= 0; });
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return worth[index(a)] > worth[index(b)]; });
  return order;
}

// The first n blocks of this order are spread evenly over the chain, for every n, so that the link
// has the computation of others to hide behind: the golden ratio's multiples, modulo 1.
std::vector<int> spread(std::size_t blocks) {
  constexpr double kGoldenRatio = 0.6180339887498949;
  std::vector<int> order;
  std::vector<bool> taken(blocks, false);
  for (std::size_t i = 0; order.size() < blocks; ++i) {
    const double turns = static_cast<double>(i + 1) * kGoldenRatio;
    const auto at =
        static_cast<std::size_t>((turns - std::floor(turns)) * static_cast<double>(blocks));
    if (taken[at]) continue;
    taken[at] = true;
    order.push_back(static_cast<int>(at));
  }
  return order;
}

std::vector<int> by_link_density(const Chain& chain, const KeptSlots& slots) {
  std::vector<double> worth;
  for (std::size_t b = 0; b < chain.size(); ++b) {
    const ChainBlock& block = chain.blocks[b];
    const auto bytes = static_cast<double>(block.saved.count);
    worth.push_back(bytes > 0 && slots[b] > 0 ? saved_micros(block) / bytes : 0.0);
  }
  return by_worth(spread(chain.size()), worth);
}

std::size_t share_of(std::size_t count, double share) {
  return static_cast<std::size_t>(static_cast<double>(count) * share + 0.5);
}

}  // namespace

ActivationPolicy policy_of(const ActivationPolicies& policies, int block) {
  return policies.empty() ? ActivationPolicy::recompute : policies[index(block)];
}

bool saves_any(const ActivationPolicies& policies) {
  return std::ranges::any_of(
      policies, [](ActivationPolicy policy) { return policy != ActivationPolicy::recompute; });
}

Bytes forward_workspace(const ChainBlock& block, bool saves) {
  return saves ? block.saving_workspace : block.forward_workspace;
}

ActivationPolicies policies_of(const Plan& plan) {
  ActivationPolicies policies(plan.blocks.size(), ActivationPolicy::recompute);
  for (const Instance& instance : plan.instances) {
    const Value& value = plan.values[index(instance.value)];
    if (value.kind != ValueKind::saved) continue;
    ActivationPolicy& policy = policies[index(value.block)];
    const PlaceKind place = plan.places[index(instance.place)].kind;
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

std::vector<int> by_device_density(const Chain& chain, const KeptSlots& slots, int micro_batches) {
  std::vector<double> worth;
  for (std::size_t b = 0; b < chain.size(); ++b) {
    const auto bytes = static_cast<double>(chain.blocks[b].saved.count) * slots[b];
    worth.push_back(bytes > 0 ? saved_micros(chain.blocks[b]) * micro_batches / bytes : 0.0);
  }
  std::vector<int> deepest_first(chain.size());
  std::iota(deepest_first.rbegin(), deepest_first.rend(), 0);
  return by_worth(std::move(deepest_first), worth);
}

KeptSlots one_slot_each(const Chain& chain) { return KeptSlots(chain.size(), 1); }

std::vector<DeviceRoom> rooms_of(const Plan& plan) {
  std::vector<DeviceRoom> rooms;
  for (PlaceId id = 0; id < static_cast<PlaceId>(plan.places.size()); ++id) {
    const Place& place = plan.places[index(id)];
    if (place.kind != PlaceKind::device) continue;
    rooms.push_back({slots_end(plan, id), place.workspace, place.budget});
  }
  return rooms;
}

ActivationPolicies keep_what_fits(const Chain& chain, std::span<const int> order,
                                  const KeptSlots& slots, std::span<const int> device_of_block,
                                  std::vector<DeviceRoom> rooms) {
  ActivationPolicies policies = keep_none(chain);
  std::vector<bool> full(rooms.size(), false);
  for (const int b : order) {
    const std::size_t device = index(device_of_block[index(b)]);
    if (full[device]) continue;
    const ChainBlock& block = chain.blocks[index(b)];
    DeviceRoom wanted = rooms[device];
    wanted.slots_end =
        round_up(wanted.slots_end, slot_size(1_B)) + slot_size(block.saved) * slots[index(b)];
    wanted.workspace = std::max(wanted.workspace, block.saving_workspace);
    full[device] = wanted.slots_end + wanted.workspace > wanted.budget;
    if (full[device]) continue;
    rooms[device] = wanted;
    policies[index(b)] = ActivationPolicy::keep;
  }
  return policies;
}

ActivationPolicies keep_none(const Chain& chain) {
  return ActivationPolicies(chain.size(), ActivationPolicy::recompute);
}

ActivationPolicies keep_all(const Chain& chain, const KeptSlots& slots) {
  ActivationPolicies policies = keep_none(chain);
  for (std::size_t b = 0; b < chain.size(); ++b) {
    if (chain.blocks[b].saved > Bytes{} && slots[b] > 0) policies[b] = ActivationPolicy::keep;
  }
  return policies;
}

ActivationPolicies swap_all(const Chain& chain, const KeptSlots& slots, ActivationPolicy policy) {
  ActivationPolicies policies = keep_none(chain);
  for (std::size_t b = 0; b < chain.size(); ++b) {
    if (chain.blocks[b].saved > Bytes{} && slots[b] > 0) policies[b] = policy;
  }
  return policies;
}

std::vector<ActivationPolicies> streaming_policies(const Chain& chain, const KeptSlots& slots,
                                                   int micro_batches, bool to_drives) {
  const std::vector<int> staying = by_device_density(chain, slots, micro_batches);
  const std::vector<int> leaving = by_link_density(chain, slots);
  std::vector<ActivationPolicies> lists;
  for (const Shares& shares : to_drives ? std::span<const Shares>(kDriveShares) : kShares) {
    ActivationPolicies policies = keep_none(chain);
    const std::size_t stay = share_of(staying.size(), shares.stay);
    for (std::size_t i = 0; i < stay; ++i) policies[index(staying[i])] = ActivationPolicy::keep;
    const std::size_t leave = share_of(leaving.size() - stay, shares.leave);
    const std::size_t in_dram = share_of(leave, shares.in_dram);
    std::size_t left = 0;
    for (const int b : leaving) {
      if (left == leave) break;
      if (policies[index(b)] == ActivationPolicy::keep) continue;
      policies[index(b)] =
          left++ < in_dram ? ActivationPolicy::swap_to_host : ActivationPolicy::swap_to_drive;
    }
    const bool known = std::find(lists.begin(), lists.end(), policies) != lists.end();
    if (!known && saves_any(policies)) lists.push_back(std::move(policies));
  }
  return lists;
}

}  // namespace ferry
