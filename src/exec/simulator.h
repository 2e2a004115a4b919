// A TaskRunner on virtual time: what a plan would take on the machine it was made for.
//
// A running task progresses at the speed base/fair_share.h gives it among everything that runs
// then.
#pragma once

#include <vector>

#include "base/spares.h"
#include "exec/shared_speeds.h"
#include "exec/timeline.h"
#include "plan/plan.h"

namespace ferry {

struct Simulation {
  Timeline timeline;  // of all simulated steps
  Micros first_step;  // end of the first step, from a cold start
  // Steady state: between the ends of the first two steps that leave the same for the next one's
  // time, or of the last two; and never below `busiest`.
  Micros step;
  // Of the last step's tasks; utilisation: busy / step.
  IdVector<ResourceId, ResourceUse> use;
  Micros busiest;  // per step: the busiest pool or resource, a lower bound of `step`
  std::string busiest_name;
  Micros critical_path;           // longest chain of full-speed times within one step
  IdVector<PlaceId, Bytes> peak;  // slots and workspace
};

/// The resource or pool that a step keeps busy for longest: no schedule of these tasks is faster.
struct Busiest {
  Micros time;
  std::string name;
};

/// O(tasks); looks at no edge.
Busiest find_busiest(const Plan& plan);

inline constexpr int kSimulatedSteps = 3;

/// Simulates `steps` steps, at least 1. Of several the last has another behind it, as all have in a
/// run: what a step leaves for the next one's time (sums that go down, updates) shares links and
/// cores with that one's uploads. That other one is in no figure and not in the timeline. 3 reach
/// the steady state of most plans to 0.1 %, and of all that tests have tried to 4 %. Deterministic:
/// ties in time are broken by task id. Requires: verify(plan) found nothing.
Simulation simulate(const Plan& plan, int steps = kSimulatedSteps);

/// `step` of simulate(plan) alone, in about half the time: for searches. It simulates no step
/// behind the first steady one, and of plans with the same resources and pools it computes only
/// once how fast they run. For any threads.
class StepSimulator {
 public:
  Micros step_of(const Plan& plan) const;

 private:
  mutable Spares<SharedSpeeds> speeds_;
};

}  // namespace ferry
