#include "planner/write/stream_schedule.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "planner/write/allocate.h"

namespace ferry {

bool StreamSchedule::uses_drives() const {
  return names_drives ||
         std::any_of(homes.begin(), homes.end(),
                     [](const BlockHome& home) {
                       return home.weight_on_drive || home.state_on_drive || home.sum_on_drive;
                     }) ||
         std::ranges::find(activations_on_drive, true) != activations_on_drive.end() ||
         std::ranges::find(policies, ActivationPolicy::swap_to_drive) != policies.end();
}

bool StreamSchedule::spares_dram() const {
  return uses_drives() || std::ranges::any_of(homes, &BlockHome::sum_passes);
}

std::vector<bool> blocks_on(const Chain& chain, const StreamSchedule& schedule, int device) {
  std::vector<bool> runs(chain.size(), false);
  for (const StageVisit& visit : schedule.visits) {
    if (visit.device != device) continue;
    std::fill(runs.begin() + visit.first, runs.begin() + visit.end, true);
  }
  return runs;
}

Bytes largest_leaving(const Chain& chain, const StreamSchedule& schedule,
                      const std::vector<bool>& runs) {
  Bytes largest;
  for (const BlockId b : chain.blocks.ids()) {
    const ActivationPolicy policy = policy_of(schedule.policies, b);
    if (policy == ActivationPolicy::recompute || policy == ActivationPolicy::keep) continue;
    if (runs[b.index()]) largest = std::max(largest, chain.blocks[b].saved);
  }
  return slot_size(largest);
}

BlockDevices devices_of_blocks(const Chain& chain, const StreamSchedule& schedule) {
  BlockDevices devices = {std::vector<int>(chain.size(), kNoDevice),
                          std::vector<int>(chain.size(), kNoDevice)};
  const auto meet = [](int& device, int visited) {
    device = device == kNoDevice || device == visited ? visited : kSeveralDevices;
  };
  for (const StageVisit& visit : schedule.visits) {
    for (int b = visit.first; b < visit.end; ++b) {
      meet(devices.all[b], visit.device);
      if (visit.direction != Direction::forward) meet(devices.backward[b], visit.device);
    }
  }
  return devices;
}

KeptSlots kept_slots(const Chain& chain, const StreamSchedule& schedule) {
  int micro_batches = 0;
  for (const StageVisit& visit : schedule.visits) {
    micro_batches = std::max(micro_batches, visit.end_batch);
  }
  constexpr int kNowhere = -1;
  IdVector<BlockId, std::vector<int>> forward_on(  // by micro-batch
      chain.size(), std::vector<int>(static_cast<std::size_t>(micro_batches), kNowhere));
  std::vector<KeptSlots> held(schedule.devices, KeptSlots(chain.size()));
  IdVector<BlockId, bool> may_stay(chain.size(), true);
  KeptSlots most(chain.size());
  for (const StageVisit& visit : schedule.visits) {
    const int batches = visit.end_batch - visit.first_batch;
    for (int b = visit.first; b < visit.end; ++b) {
      int& now = held[visit.device][b];
      if (visit.direction != Direction::backward) {
        const int more = visit.direction == Direction::fused ? 1 : batches;
        most[b] = std::max(most[b], now + more);
      }
      if (visit.direction == Direction::fused) continue;
      now += visit.direction == Direction::forward ? batches : -batches;
      const auto first = forward_on[b].begin() + visit.first_batch;
      const auto end = forward_on[b].begin() + visit.end_batch;
      if (visit.direction == Direction::forward) {
        std::fill(first, end, visit.device);
      } else if (std::count(first, end, visit.device) != batches) {
        may_stay[b] = false;
      }
    }
  }
  for (const BlockId b : chain.blocks.ids()) {
    if (!may_stay[b]) most[b] = 0;
  }
  return most;
}

std::vector<TokenUse> token_uses(const Chain& chain, std::span<const StageVisit> visits) {
  std::vector<TokenUse> uses;
  for (const StageVisit& visit : visits) {
    int each = 0;
    for (int b = visit.first; b < visit.end; ++b) {
      if (!reads_tokens(chain, b)) continue;
      if (visit.direction != Direction::backward && has_forward(chain.blocks[b])) ++each;
      if (visit.direction != Direction::forward) ++each;
    }
    for (int m = visit.first_batch; m < visit.end_batch; ++m) {
      uses.insert(uses.end(), each, {visit.device, m});
    }
  }
  return uses;
}

int tokens_in_use(std::span<const TokenUse> uses, int device) {
  std::map<int, int> left;  // by micro-batch
  for (const TokenUse& use : uses) {
    if (use.device == device) ++left[use.micro_batch];
  }
  std::set<int> present;
  std::size_t most = 0;
  for (const TokenUse& use : uses) {
    if (use.device != device) continue;
    present.insert(use.micro_batch);
    most = std::max(most, present.size());
    if (--left[use.micro_batch] == 0) present.erase(use.micro_batch);
  }
  return static_cast<int>(most);
}

Bytes saved_bytes(const Chain& chain, const StreamSchedule& schedule, const KeptSlots& slots,
                  int device) {
  const std::vector<bool> runs = blocks_on(chain, schedule, device);
  Bytes bytes = largest_leaving(chain, schedule, runs) * schedule.saved_slots;
  for (const BlockId b : chain.blocks.ids()) {
    if (policy_of(schedule.policies, b) != ActivationPolicy::keep || !runs[b.index()]) continue;
    bytes += slot_size(chain.blocks[b].saved) * slots[b];
  }
  return bytes;
}

}  // namespace ferry
