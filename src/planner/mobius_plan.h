// Writes the plan of strategy `mobius` for one shape: a partition, a mapping and ring lengths.
#pragma once

#include <vector>

#include "plan/plan.h"
#include "planner/chain.h"
#include "planner/planner.h"

namespace ferry {

struct MobiusShape {
  std::vector<int> ends;            // one past each stage's last block
  std::vector<int> device_of_slot;  // stage j runs on device_of_slot[j mod N]
  int activation_slots = 3;         // per device, at least kLeastActivationSlots
  int token_slots = 1;              // per device that needs tokens
  /// With clipping every update waits for all norms. In block order the next step's first weights
  /// are ready first; in the order of landing no update waits for the last gradient sum.
  bool updates_as_landed = false;
};

/// A backward task's input, the gradient it reads and the one it writes.
inline constexpr int kLeastActivationSlots = 3;

/// The plan, with all edges, whether or not it fits: each device's region of weights takes what its
/// limit leaves, but at least what the largest visit needs.
Plan write_mobius_plan(const PlanQuestion& question, const Chain& chain, const MobiusShape& shape);

}  // namespace ferry
