// The arrays of an AdamW benchmark, in one slab of touched memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "optim/adamw.h"
#include "optim/worker_team.h"
#include "store/host_slab.h"

namespace ferry {

class AdamWArrays {
 public:
  /// Both forms of the weight of `count` parameters, moments, and gradients in both types, filled
  /// with values of a usual size. Requires: count is a multiple of 4096. A power of two makes every
  /// reader of several arrays slow (up to 2x): equal positions then compete for the same banks.
  AdamWArrays(std::size_t count, WorkerTeam& team);

  SplitState split() const { return {hi, lo, m, v}; }
  FullState full() const { return {weight, m, v}; }

  std::span<float> weight, m, v, gradient;
  std::span<std::uint16_t> hi, lo, gradient_bf16;

 private:
  HostSlab slab_;
};

}  // namespace ferry
