// What happens to every activation and state of a step, decided together: Ratel's choice of what
// to swap, with DRAM shared between states and activations.
//
// hi16 and states are cached in the order of value_density.h; how many of them leave room for how
// many activations is what this pass tries, by the step time of iteration_model.h.
#pragma once

#include <cstddef>
#include <vector>

#include "planner/fates.h"
#include "planner/tiers/iteration_model.h"
#include "planner/tiers/value_density.h"

namespace ferry {

struct PolicyQuestion {
  /// Memories, drives and each block's hi16 and states. Activations are in `tensors`, so the
  /// blocks' own must be 0.
  TierQuestion tiers;
  /// Seconds of compute and of drives that wait; the bytes follow from the placement.
  StepCosts costs;
  double link_rate = 0;             // bytes per second, each way
  std::vector<SwapTensor> tensors;  // SwapTensor::layer: deeper ones are needed sooner
};

struct ActivationPolicy {
  TierPlacement states;
  StepCosts costs;                    // with the bytes that the placement leaves to move
  std::vector<ActivationFate> fates;  // one per tensor
  double kept_bytes = 0;              // on the device
  double host_bytes = 0;
  double drive_bytes = 0;  // one tensor may lie in host memory in part; its fate is the drive
  double recompute = 0;    // seconds
  IterationTime time;
};

/// The fastest combination of a number of cached states and a set of swapped tensors; of several
/// the one with most states cached. More host memory never makes it slower. Requires: positive
/// rates.
ActivationPolicy choose_activation_policy(const PolicyQuestion& question);

}  // namespace ferry
