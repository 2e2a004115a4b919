// Which blocks' values stay on the devices that run them, where memory is left for them.
//
// A device's blocks are taken in an order that depends on the chain and the visits alone. So what
// stays with less memory is a part of what stays with more.
#pragma once

#include <vector>

#include "planner/costs/chain.h"
#include "planner/write/stream_schedule.h"

namespace ferry {

class DeviceHomes {
 public:
  /// `chain` must outlive it.
  DeviceHomes(const Chain& chain, const StreamSchedule& schedule);

  /// `resting` is where things rest that are not on devices: empty, or by block.
  std::vector<BlockHome> homes(std::vector<BlockHome> resting, const HomeCounts& counts) const;

  /// Gives the block the wanted home on its device, or as much of it as it can have there; a tied
  /// head has its sum where the table is at home. `homes`: by block.
  void set(std::vector<BlockHome>& homes, int block, BlockHome wanted) const;

  /// Beyond these a count changes nothing.
  const HomeCounts& most() const { return most_; }

 private:
  std::vector<int> renewed(const std::vector<int>& blocks, const std::vector<BlockHome>& homes,
                           int count) const;

  const Chain& chain_;
  // By device, in the order in which they are taken.
  std::vector<std::vector<int>> all_;
  std::vector<std::vector<int>> sums_;
  std::vector<std::vector<int>> weights_;
  std::vector<bool> inputs_;  // by block, whether its input can stay: not tokens
  int first_device_ = 0;      // of block 0
  HomeCounts most_;
};

/// The most that a byte of device memory can spare the schedule.
struct HomeSavings {
  double copies = 0;  // bytes of any one queue
  Micros updates;     // of the host
};
HomeSavings most_savings(const Chain& chain, const StreamSchedule& schedule);

}  // namespace ferry
