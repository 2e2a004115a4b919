// What streaming strategies share: they offer schedules (stream_schedule.h); the search finds where
// states rest, how long rings may be, and keeps the fastest draft by simulation.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/strategies/passes.h"
#include "planner/strategies/strategy.h"
#include "planner/write/stream_schedule.h"

namespace ferry {

using StreamDraft = Draft<StreamSchedule>;

class StreamSearch {
 public:
  /// Whether training may have blocks at home on devices, or leave sums and weights there: for
  /// strategies whose blocks return to their device. Others are as they were published. Evaluation
  /// finds everything where training has it (with_evaluation.h).
  enum class Homes { on_host, anywhere };

  /// Both must outlive the search.
  StreamSearch(const PlanQuestion& question, const Chain& chain, Homes homes = Homes::on_host);

  /// Whether the strategy fits at all is decided by its schedule of least memory alone (one block
  /// per visit), so that more memory never hurts: returns what it lacks, with the shortest rings
  /// and everything at rest on the drives if there are some. Otherwise decides where states rest.
  std::optional<Shortage> start(StreamSchedule least_memory);

  /// Offers the schedule's plan with the longest activation rings that fit, up to a roomy length.
  /// Requires: start() returned nothing.
  void offer(StreamSchedule schedule);

  /// More visits to try homes with, whatever is the fastest of what was offered.
  void offer_for_homes(StreamSchedule regular) { regular_.push_back(std::move(regular)); }

  /// The fastest of what was offered after the passes that all strategies have: policies of
  /// activations (activation_policy.h), ring lengths, the order of updates. Of a small step the
  /// next fastest pass through them too. Then, where they may, homes. Requires: start() returned
  /// nothing.
  StreamDraft refined();

  /// The draft, or the schedule's plan with the schedule's own ring lengths when that is faster.
  StreamDraft faster_of(StreamDraft draft, const StreamSchedule& schedule);

  Passes& passes() { return passes_; }

  /// The strategy's answer. `remark`: how it was chosen.
  StrategyPlan answer(StreamDraft draft, const std::string& remark) const;

 private:
  static constexpr int kRoomyRing = 8;  // slots with which copies no longer wait for slots, mostly

  enum class Leaving { for_dram, for_drives };  // streaming_policies()
  /// Both rings long, or short where that does not fit; or the ring of what leaves short, and both.
  enum class Rings { roomy, mixed };
  struct PolicyTrials {
    Leaving leaving;
    Rings rings;
  };

  /// A schedule's plan, or what it lacks; neither where it cannot be faster than what is known.
  struct Attempt {
    std::optional<StreamDraft> draft;
    std::optional<Shortage> lacking;
  };
  /// What is known of a schedule that was tried.
  struct Verdict {
    std::optional<Shortage> lacking;
    Micros at_least;  // its step
  };

  /// What policies could make of a schedule.
  struct Ideal {
    Bytes free_dram;  // while nothing is kept
    Micros step;      // if keeping what forward made cost nothing
  };

  Attempt try_schedule(const StreamSchedule& offered, std::optional<Micros> faster_than);
  Attempt try_longest_ring(const StreamSchedule& schedule, int slots,
                           std::optional<Micros> faster_than);
  bool lost(const StreamSchedule& schedule, const Plan& plan) const;
  ActivationPolicies asked_policies(const StreamSchedule& schedule) const;

  Attempt find_homes(Attempt in_dram);
  void rest_with_swaps(Bytes needed);
  bool has_drives() const;
  StreamSchedule at_rest(StreamSchedule schedule, bool swaps_to_drive) const;

  StreamDraft refine_policies(StreamDraft draft);
  StreamDraft refine_homes(StreamDraft first, StreamDraft finished);
  StreamDraft with_policies(StreamDraft draft, PolicyTrials trials);
  enum class Then { policies, rings };  // what is chosen next
  StreamDraft with_homes(StreamDraft draft, Then then);
  StreamDraft best_homes(StreamDraft draft, Then then);
  StreamDraft neighbouring_homes(StreamDraft draft);
  std::optional<StreamDraft> with_more(StreamSchedule schedule, Micros step, int HomeCounts::*kind,
                                       int most);
  StreamDraft with_fills(StreamDraft draft);
  StreamDraft best_fill(StreamDraft draft, StreamSchedule visits);
  bool try_fills(StreamDraft& draft, const StreamSchedule& visits, int all);
  bool is_roomy(const StreamSchedule& schedule) const;
  StreamDraft refine_rings_and_updates(StreamDraft draft);
  StreamDraft best_policies(StreamDraft draft, PolicyTrials trials);
  StreamDraft best_policies_of(StreamDraft draft, StreamSchedule schedule, PolicyTrials trials);
  Ideal ideal_of(const StreamSchedule& schedule, bool swaps_to_drive, const KeptSlots& slots);
  bool has_room_for(const StreamSchedule& schedule, const KeptSlots& slots, Bytes dram) const;
  StreamDraft best_rings(StreamDraft draft);
  StreamDraft neighbouring_rings(StreamDraft draft);
  StreamDraft best_updates(StreamDraft draft);

  int all_activations() const;
  StreamSchedule with_slots(StreamSchedule schedule, int slots) const;
  StreamSchedule with_roomy_saved_ring(StreamSchedule schedule) const;

  const PlanQuestion& question_;
  const Chain& chain_;
  Passes passes_;
  const bool homes_;                          // on devices too
  StreamSchedule resting_;                    // where things rest; no visits
  std::optional<StreamSchedule> with_swaps_;  // likewise when activations leave for the drives
  StreamSchedule least_memory_;
  std::map<std::string, Verdict> tried_;  // by key_of()
  std::map<std::string, Ideal> ideals_;   // likewise, and whether it may swap to drives
  std::ptrdiff_t written_ = 0;            // tasks of large plans
  Drafts<StreamSchedule> offered_;
  std::vector<StreamSchedule> regular_;
};

/// Whether simulations are so short that more schedules can be tried and refined.
bool is_small_step(const PlanQuestion& question, const Chain& chain);

/// One block per stage: {1, 2, ..., blocks}.
std::vector<int> finest_partition(const Chain& chain);

}  // namespace ferry
