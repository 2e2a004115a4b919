// The host's optimizer in timing plans: updates of blocks, one after another.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "papers/timing/timing_plan.h"
#include "planner/planner.h"

namespace ferry {

class HostUpdates {
 public:
  /// The rate is the profile's, else the machine's; without one updates take no time and no task.
  /// Must not outlive `plan` and `question`.
  HostUpdates(TimingPlan& plan, const PlanQuestion& question);

  /// The update of blocks [first, end) of the chain, or nothing when it takes no time.
  std::optional<TaskId> add(const std::string& name, int first, int end, std::vector<TaskId> after);

 private:
  TimingPlan& plan_;
  const Profile& profile_;
  double rate_;  // parameters per second
  std::optional<ResourceId> worker_;
};

}  // namespace ferry
