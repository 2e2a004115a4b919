// What streaming strategies share: they offer shapes (stream_shape.h); the search finds where
// states rest, how long rings may be, and keeps the fastest plan by simulation.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/strategies/strategy.h"
#include "planner/write/stream_shape.h"

namespace ferry {

class StreamSearch {
 public:
  /// Both must outlive the search.
  StreamSearch(const PlanQuestion& question, const Chain& chain);

  /// Whether the strategy fits at all is decided by its thriftiest shape alone (one block per
  /// visit), so that more memory never hurts: returns what it lacks, with the shortest rings and
  /// everything at rest on the drives if there are some. Otherwise decides where states rest.
  std::optional<Shortage> start(StreamShape thriftiest);

  /// Tries the shape with the longest activation rings that fit, up to a roomy length, and keeps
  /// its plan when it is the fastest so far. Requires: start() returned nothing.
  void offer(StreamShape shape);

  /// Tries the shape with its own ring lengths.
  void offer_as_it_is(const StreamShape& shape) { try_shape(shape); }

  /// Tries fates of activations (fates.h) for the fastest and the thriftiest shape, then other ring
  /// lengths and orders of updates for the fastest so far; where there are drives, likewise fates
  /// that leave for them. Of a small step the next fastest shapes are refined too.
  void refine();

  /// The fastest plan. `remark`: how it was chosen.
  StrategyPlan take(const std::string& remark);

  const StreamShape& best() const { return best_->shape; }
  Micros best_step() const { return best_->prediction.step; }

 private:
  enum class Leaving { for_dram, for_drives };  // streaming_fates()
  struct Found {
    Plan plan;
    Simulation prediction;
    StreamShape shape;
  };

  std::optional<Shortage> try_shape(const StreamShape& shape);
  bool hopeless(const Plan& plan) const;
  bool lost(const Plan& plan) const;
  void try_longest_ring(StreamShape shape, int slots);
  Fates asked_fates(const StreamShape& shape) const;
  bool has_drives() const;
  bool has_room_for(const StreamShape& shape, const KeptSlots& slots, Bytes dram) const;
  void try_fates(Leaving leaving);
  void try_fates(StreamShape shape, Leaving leaving);
  bool fates_may_help(Plan plan, const KeptSlots& slots) const;
  void keep(Found found);
  void refine_best();
  void refine_rings();
  StreamShape with_roomy_saved_ring(StreamShape shape) const;
  StreamShape at_rest(StreamShape shape, bool swaps_to_drive) const;
  Bytes rest_on_drives(const StreamShape& thriftiest);
  void rest_with_swaps(Bytes needed, const StreamShape& thriftiest);
  int all_activations() const;
  StreamShape with_slots(StreamShape shape, int slots) const;

  const PlanQuestion& question_;
  const Chain& chain_;
  StreamShape resting_;                    // where things rest; no visits
  std::optional<StreamShape> with_swaps_;  // likewise when activations leave for the drives
  StreamShape thriftiest_;
  std::set<std::string> tried_;
  std::optional<Found> best_;
  std::vector<Found> runners_up_;  // of what was offered, the fastest first
  std::size_t most_runners_up_;
};

/// Whether simulations are so short that more shapes can be tried and refined.
bool is_small_step(const PlanQuestion& question, const Chain& chain);

/// One block per stage: {1, 2, ..., blocks}.
std::vector<int> finest_partition(const Chain& chain);

}  // namespace ferry
