#include "planner/strategies/device_homes.h"

#include <algorithm>
#include <cstddef>

namespace ferry {
namespace {

// By device and block: how often its visits read W, or a tied head that reads it.
std::vector<std::vector<int>> visits_that_read(const Chain& chain, const StreamSchedule& schedule) {
  std::vector<std::vector<int>> reads(schedule.devices, std::vector<int>(chain.size()));
  for (const StageVisit& visit : schedule.visits) {
    for (int b = visit.first; b < visit.end; ++b) {
      ++reads[visit.device][weight_owner(chain, b).index()];
    }
  }
  return reads;
}

// HomeCounts::large: those blocks first, then the others in their order.
std::vector<int> large_first(const Chain& chain, std::vector<int> blocks, int large) {
  std::vector<int> by_size = blocks;
  std::ranges::stable_sort(by_size, std::ranges::greater{},
                           [&](int b) { return chain.blocks[b].weights + chain.blocks[b].states; });
  by_size.resize(std::min(by_size.size(), static_cast<std::size_t>(large)));
  std::ranges::stable_partition(
      blocks, [&](int b) { return std::ranges::find(by_size, b) != by_size.end(); });
  return blocks;
}

// HomeCounts::passing.
std::vector<int> without_passing(const std::vector<int>& sums, int passing) {
  if (passing == 0) return sums;
  std::vector<int> waiting;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if ((i + 1) % static_cast<std::size_t>(passing) > 0) waiting.push_back(sums[i]);
  }
  return waiting;
}

}  // namespace

DeviceHomes::DeviceHomes(const Chain& chain, const StreamSchedule& schedule)
    : chain_(chain), all_(schedule.devices), sums_(schedule.devices), weights_(schedule.devices) {
  const int blocks = static_cast<int>(chain.size());
  const auto [runs_on, backward_on] = devices_of_blocks(chain, schedule);
  const auto reads = visits_that_read(chain, schedule);
  const int head = blocks - 1;
  const int tied = chain.blocks[head].reads_weight;
  for (int b = 0; b < blocks; ++b) {
    for (int d = 0; d < schedule.devices; ++d) {
      if (reads[d][b] > 1) weights_[d].push_back(b);
    }
    if (!chain.blocks[b].trainable) continue;
    // A tied head elsewhere would have W and G cross the host at both ends of the step.
    const bool shared = b == tied && runs_on[head] != runs_on[b];
    if (runs_on[b] >= 0 && !shared) all_[runs_on[b]].push_back(b);
    if (backward_on[b] >= 0 && b != tied) sums_[backward_on[b]].push_back(b);
  }
  for (int b = 0; b < blocks; ++b) inputs_.push_back(b > 0 && runs_on[b] >= 0);
  first_device_ = runs_on[0];
  for (int d = 0; d < schedule.devices; ++d) {
    // At home on a device, a sum that waits for the norm takes room there.
    std::ranges::stable_partition(all_[d], [&](int b) { return b >= schedule.again_from; });
    std::ranges::reverse(sums_[d]);
    most_.all = std::max(most_.all, static_cast<int>(all_[d].size()));
    most_.sums = std::max(most_.sums, static_cast<int>(sums_[d].size()));
    most_.weights = std::max(most_.weights, static_cast<int>(weights_[d].size()));
  }
  if (first_device_ >= 0 && schedule.devices > 1) {
    most_.all_elsewhere = most_.all;
    most_.sums_elsewhere = most_.sums;
  }
}

void DeviceHomes::set(std::vector<BlockHome>& homes, int block, BlockHome wanted) const {
  const auto among = [&](const std::vector<std::vector<int>>& candidates) {
    return std::ranges::any_of(candidates, [&](const std::vector<int>& of_device) {
      return std::ranges::find(of_device, block) != of_device.end();
    });
  };
  const int table = chain_.blocks[block].reads_weight;
  wanted.on_device = table >= 0 ? homes[table].on_device : wanted.on_device && among(all_);
  wanted.sum_waits = wanted.sum_waits && !wanted.on_device && among(sums_);
  wanted.sum_waits_in_dram = wanted.sum_waits_in_dram && !wanted.on_device && !wanted.sum_waits &&
                             chain_.blocks[block].trainable;
  wanted.weight_stays = wanted.weight_stays && !wanted.on_device && among(weights_);
  wanted.renews_at_once = wanted.renews_at_once && wanted.weight_stays && !wanted.sum_waits &&
                          chain_.blocks[block].trainable;
  wanted.input_stays = wanted.input_stays && inputs_[block];
  homes[block] = wanted;
  const int head = static_cast<int>(chain_.size()) - 1;
  if (chain_.blocks[head].reads_weight == block) homes[head].on_device = wanted.on_device;
}

/// HomeCounts::renewed, of a device's blocks.
std::vector<int> DeviceHomes::renewed(const std::vector<int>& blocks,
                                      const std::vector<BlockHome>& homes, int count) const {
  std::vector<int> passing;
  for (const int b : blocks) {
    if (homes[b] == BlockHome{} && chain_.blocks[b].trainable) passing.push_back(b);
  }
  const int all = static_cast<int>(passing.size());
  count = std::min(count, all);
  std::vector<int> chosen;
  for (int i = 0; i < all; ++i) {
    if ((i + 1) * count / all > i * count / all) chosen.push_back(passing[i]);
  }
  return chosen;
}

std::vector<BlockHome> DeviceHomes::homes(std::vector<BlockHome> resting,
                                          const HomeCounts& counts) const {
  resting.resize(chain_.size());
  const auto give = [](const std::vector<int>& blocks, int count, auto&& home) {
    for (const int b : blocks) {
      if (count-- <= 0) return;
      home(b);
    }
  };
  for (std::size_t d = 0; d < all_.size(); ++d) {
    const bool elsewhere = static_cast<int>(d) != first_device_;
    const int all = counts.all + (elsewhere ? counts.all_elsewhere : 0);
    const int sums = counts.sums + (elsewhere ? counts.sums_elsewhere : 0);
    give(large_first(chain_, all_[d], counts.large), all,
         [&](int b) { set(resting, b, {.on_device = true}); });
    give(without_passing(sums_[d], counts.passing), sums, [&](int b) {
      if (!resting[b].on_device) resting[b].sum_waits = true;
    });
    give(weights_[d], all + counts.weights, [&](int b) {
      if (!resting[b].on_device && counts.weights > 0) resting[b].weight_stays = true;
    });
    for (const int b : renewed(weights_[d], resting, counts.renewed)) {
      resting[b].weight_stays = resting[b].renews_at_once = true;
    }
  }
  return resting;
}

HomeSavings most_savings(const Chain& chain, const StreamSchedule& schedule) {
  HomeSavings most;
  for (const std::vector<int>& reads : visits_that_read(chain, schedule)) {
    most.copies = std::max<double>(most.copies, *std::ranges::max_element(reads) - 1);
  }
  if (DeviceHomes(chain, schedule).most().all == 0) return most;
  for (const ChainBlock& block : chain.blocks) {
    if (!block.trainable) continue;
    const auto at_rest = static_cast<double>((block.weights + block.states).count);
    const auto sums = static_cast<double>(landing_sum(block).count);
    most.copies = std::max(most.copies, sums / at_rest);
    most.updates = std::max(most.updates, block.host_update * (1 / at_rest));
  }
  return most;
}

}  // namespace ferry
