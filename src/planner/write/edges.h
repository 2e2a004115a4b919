// The edges that make a plan's slots safe on concurrent queues.
#pragma once

#include <cstdint>
#include <vector>

#include "base/spares.h"
#include "plan/plan.h"

namespace ferry {

/// Sets `after` and `after_previous` of every task so that any two accesses to overlapping bytes,
/// one of them a write, are ordered as they stand in Plan::tasks: within the step, and from one
/// step to the next. Edges that queue order or other edges imply are left out. Requires: run one
/// after another in this order, the tasks are right.
void order_accesses(Plan& plan);

/// The same for plan after plan: what it works with, some times a plan's memory, comes from the
/// system once. For any threads.
class AccessOrder {
 public:
  void set(Plan& plan) const;

 private:
  mutable Spares<std::vector<std::int32_t>> clocks_;
};

}  // namespace ferry
