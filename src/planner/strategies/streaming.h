// What streaming strategies share: they offer schedules (stream_schedule.h); the search finds where
// states rest, how long rings may be, and keeps the fastest plan by simulation.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/strategies/strategy.h"
#include "planner/write/stream_schedule.h"

namespace ferry {

class StreamSearch {
 public:
  /// Both must outlive the search.
  StreamSearch(const PlanQuestion& question, const Chain& chain);

  /// Whether the strategy fits at all is decided by its schedule of least memory alone (one block
  /// per visit), so that more memory never hurts: returns what it lacks, with the shortest rings
  /// and everything at rest on the drives if there are some. Otherwise decides where states rest.
  std::optional<Shortage> start(StreamSchedule least_memory);

  /// Tries the schedule with the longest activation rings that fit, up to a roomy length, and keeps
  /// its plan when it is the fastest so far. Requires: start() returned nothing.
  void offer(StreamSchedule schedule);

  /// Tries the schedule with its own ring lengths.
  void offer_as_it_is(const StreamSchedule& schedule) { try_schedule(schedule); }

  /// Tries policies of activations (activation_policy.h) for the fastest and the schedule of least
  /// memory, then other ring lengths and orders of updates for the fastest so far; where there are
  /// drives, likewise policies that leave for them. Of a small step the next fastest schedules are
  /// refined too.
  void refine();

  /// The fastest plan. `remark`: how it was chosen.
  StrategyPlan take(const std::string& remark);

  const StreamSchedule& best() const { return best_->schedule; }
  Micros best_step() const { return best_->prediction.step; }

 private:
  enum class Leaving { for_dram, for_drives };  // streaming_policies()
  struct Found {
    Plan plan;
    Simulation prediction;
    StreamSchedule schedule;
  };

  std::optional<Shortage> try_schedule(const StreamSchedule& schedule);
  bool hopeless(const Plan& plan) const;
  bool lost(const Plan& plan) const;
  void try_longest_ring(StreamSchedule schedule, int slots);
  ActivationPolicies asked_policies(const StreamSchedule& schedule) const;
  bool has_drives() const;
  bool has_room_for(const StreamSchedule& schedule, const KeptSlots& slots, Bytes dram) const;
  void try_policies(Leaving leaving);
  void try_policies(StreamSchedule schedule, Leaving leaving);
  bool policies_may_help(Plan plan, const KeptSlots& slots) const;
  void keep(Found found);
  void refine_best();
  void refine_rings();
  StreamSchedule with_roomy_saved_ring(StreamSchedule schedule) const;
  StreamSchedule at_rest(StreamSchedule schedule, bool swaps_to_drive) const;
  Bytes rest_on_drives(const StreamSchedule& least_memory);
  void rest_with_swaps(Bytes needed, const StreamSchedule& least_memory);
  int all_activations() const;
  StreamSchedule with_slots(StreamSchedule schedule, int slots) const;

  const PlanQuestion& question_;
  const Chain& chain_;
  StreamSchedule resting_;                    // where things rest; no visits
  std::optional<StreamSchedule> with_swaps_;  // likewise when activations leave for the drives
  StreamSchedule least_memory_;
  std::set<std::string> tried_;
  std::optional<Found> best_;
  std::vector<Found> runners_up_;  // of what was offered, the fastest first
  std::size_t most_runners_up_;
};

/// Whether simulations are so short that more schedules can be tried and refined.
bool is_small_step(const PlanQuestion& question, const Chain& chain);

/// One block per stage: {1, 2, ..., blocks}.
std::vector<int> finest_partition(const Chain& chain);

}  // namespace ferry
