// What streaming strategies share: they offer schedules (stream_schedule.h); the search finds where
// states rest, how long rings may be, and keeps the fastest draft by simulation.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "planner/strategies/block_moves.h"
#include "planner/strategies/homes.h"
#include "planner/strategies/memory_rungs.h"
#include "planner/strategies/passes.h"
#include "planner/strategies/strategy.h"
#include "planner/write/edges.h"
#include "planner/write/stream_schedule.h"

namespace ferry {

/// A schedule that fits, and its simulated step.
struct StreamDraft {
  StreamSchedule schedule;
  Bytes rung;  // its plan is written for devices of so much: what passes takes what is left of it
  Micros time;
  bool fits_asked = false;  // on the devices as they were asked for: a rung may have more

  Micros step() const { return time; }
  bool fits() const { return fits_asked; }
};

class StreamSearch {
 public:
  /// Whether training may have blocks at home on devices, or leave sums and weights there: for
  /// strategies whose blocks return to their device. Others are as they were published. Evaluation
  /// finds everything where training has it (with_evaluation.h).
  enum class Homes { on_host, anywhere };

  /// Of plans of at most so many tasks all is tried, of larger ones what gains most.
  static constexpr std::ptrdiff_t kShortPlan = 8'000;
  /// A climb through larger ones ends early.
  static constexpr std::ptrdiff_t kLargePlan = 20'000;

  /// Both must outlive the search.
  StreamSearch(const PlanQuestion& question, const Chain& chain, Homes homes = Homes::on_host);

  /// Whether the strategy fits at all is decided by its schedule of least memory alone (one block
  /// per visit, or the stages that the job asks for): returns what it lacks, with the shortest
  /// rings and everything at rest on the drives if there are some. Otherwise decides where states
  /// rest. The devices hold what neither DRAM nor drives do, maybe in the visits of `even`, which
  /// also are among those whose whole blocks are packed.
  std::optional<Shortage> start(StreamSchedule least_memory,
                                std::span<const StreamSchedule> even = {});

  /// Begins the climb where whole blocks at home on devices leave the drives such a share of what
  /// they have at rest when there are none. Returns false, and changes nothing, where they have no
  /// more as it is, the devices lack room, or plans are long. Requires: start() returned nothing.
  bool rest_less_on_drives(double share);

  /// What a strategy has for devices of a size.
  struct Offers {
    /// Calls offer() and offer_for_homes(); says whether with more memory it had others.
    std::function<bool()> schedules;
    /// The draft, or a faster one with other devices for its slots.
    std::function<StreamDraft(StreamDraft)> mapping = {};
  };

  /// The fastest of all drafts that were tried and that the devices hold. Tried is what the search
  /// finds on every rung (memory_rungs.h) up to the devices' memory, and on the next, in this
  /// order: so what is tried with less memory is tried with more, which therefore never hurts.
  /// Of a question that any plan answers: what fits with least memory.
  /// Requires: start() returned nothing.
  StreamDraft climb(const Offers& offers);

  /// How large the plan of least memory is, in tasks. Requires: start() returned nothing.
  std::ptrdiff_t least_tasks();

  /// What climb() had found at the end of each rung that made the step shorter, the lowest first.
  const std::vector<StreamDraft>& best_by_rung() const { return best_by_rung_; }

  /// Before climb(): the drafts of best_by_rung() of another search whose steps take about as long,
  /// the fastest and those that are close to it. They fill DRAM however large plans are, as theirs
  /// did. They may be the answer; the climb goes on as if there were none, and is left out where
  /// plans are so large that it would try but a few. Returns the best, where one fits.
  std::optional<StreamDraft> try_beforehand(std::span<const StreamDraft> drafts);

  /// The question with the devices of the rung in progress.
  const PlanQuestion& question() const { return question_; }

  /// Offers each schedule's plan with the longest activation rings that fit, up to a roomy length.
  void offer(std::vector<StreamSchedule> schedules);

  /// More visits to try homes with, whatever is the fastest of what was offered.
  void offer_for_homes(StreamSchedule regular);

  /// A pipeline with everything at home, to be tried with weights and sums there and as many states
  /// as fit.
  void offer_pipeline(StreamSchedule pipeline) { pipeline_ = std::move(pipeline); }

  /// The draft, or the schedule on the rung in progress, with its own ring lengths, when that is
  /// faster.
  StreamDraft faster_of(StreamDraft draft, const StreamSchedule& schedule);

  /// The same of several in turn, which are rated side by side where cores are idle.
  StreamDraft fastest_of(StreamDraft draft, std::span<const StreamSchedule> schedules);

  /// Of the schedule's plan for devices of a rung, if it fits; for climb() to have ended.
  std::optional<Micros> step_of(const StreamSchedule& schedule, Bytes rung);

  Passes& passes() { return passes_; }

  /// Plans are so large that a climb would try but a few.
  bool tires_at_once() const;

  /// What a slot for everything at once takes of DRAM. Known once start() has returned, be it a
  /// shortage.
  const DramNeed& need_of_dram() const { return needed_; }

  /// DRAM has not so much.
  bool is_short_of_dram() const;

  /// The strategy's answer. `remark`: how it was chosen.
  StrategyPlan answer(const StreamDraft& draft, const std::string& remark);

 private:
  static constexpr int kRoomyRing = 8;  // slots with which copies no longer wait for slots, mostly
  /// How many more whole blocks than the first block's device others may have.
  static constexpr std::array kElsewhere = {0, 1, 2, 4, 8};

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
  /// What trying a schedule shows, once at rest: of one that lacks nothing and is exact its step,
  /// else what that takes at least.
  struct Rated {
    StreamDraft draft;
    std::optional<Shortage> lacking;
    Micros at_least;  // where there was a limit: what is seen without simulating
    bool is_exact = false;
    bool is_roomy = false;
    std::ptrdiff_t written = 0;  // tasks of large plans
  };
  /// What peek() saw.
  struct Seen {
    Micros limit;  // as try_schedule()'s `faster_than`
    Rated rated;
  };
  using Sights = std::vector<std::pair<std::string, Seen>>;  // by key_of()
  /// A schedule to be tried with a ring of so many slots, or the longest that fits.
  struct RingTry {
    StreamSchedule schedule;
    int slots;
  };
  /// What is known of a schedule that was tried.
  struct Verdict {
    std::optional<Shortage> lacking;
    Micros at_least;        // its step
    bool is_exact = false;  // which is simulated
    bool is_roomy = false;  // as it would be with more memory
    Bytes left_free;        // by the schedule with which it fits the host
    Bytes rung;
    bool fits_asked = false;
  };

  /// What policies could make of a schedule.
  struct Ideal {
    Bytes free_dram;  // for forward, while nothing is kept
    Micros step;      // if keeping what forward made cost nothing
  };

  /// The best of the climb as far as a rung.
  struct Found {
    Bytes rung;
    StreamDraft draft;
  };

  bool needs_drives() const;
  void look_at_least_plan();
  std::vector<MemoryRung> rungs();
  std::vector<Bytes> between(std::span<const MemoryRung> rungs, const MemoryRung& rung) const;
  Bytes most_device_memory() const;
  void stand_on(Bytes rung);
  StreamDraft least();
  bool offer_all(const Offers& offers);
  StreamDraft refined();
  StreamDraft neighbouring(StreamDraft draft, bool lands);
  bool may_hold_inputs(const StreamDraft& draft) const;
  std::optional<StreamDraft> holding_inputs(const StreamDraft& draft,
                                            std::optional<StreamDraft> held, bool lands);
  std::optional<StreamDraft> with_states_out(const StreamDraft& draft);
  /// What the tries find may be the answer (best_); the climb goes on as if there were none.
  template <typename Tries>
  void beside_climb(Tries tries) {
    const Micros fastest = fastest_;
    tries();
    fastest_ = fastest;
  }
  int device_count() const { return static_cast<int>(asked_.machine.devices.size()); }

  /// The schedule's plan, counted where it is large.
  Plan write(const StreamSchedule& schedule);
  Plan write(const StreamSchedule& schedule, std::ptrdiff_t& written) const;
  Rated rate(StreamSchedule schedule, std::optional<Micros> faster_than) const;
  void keep_best(const Rated& rated);
  /// Whether the search has written so much that nothing else is tried.
  bool is_tired() const;
  bool has_short_plans() const { return tasks_ <= kShortPlan; }
  bool holds_here(const Verdict& verdict) const;
  Shortage as_here(Shortage lacking) const;
  Shortage lacking_here(Shortage lacking);
  bool fits_asked(const Plan& plan) const;
  Attempt try_schedule(const StreamSchedule& offered, std::optional<Micros> faster_than);
  Attempt try_fewest_out(const StreamSchedule& pipeline, Micros faster_than);
  StreamSchedule settled_anew(StreamSchedule schedule) const;
  const Verdict* known(const std::string& key, std::optional<Micros> faster_than) const;
  Rated rate_once(const std::string& key, StreamSchedule schedule,
                  std::optional<Micros> faster_than);
  Attempt try_longest_ring(const RingTry& one, std::optional<Micros> faster_than);
  int first_length(const RingTry& one) const;
  int next_length(int slots, const Shortage& lacking) const;
  /// What try_schedule() will find the schedule lacks; what else is seen goes to `sights`. For any
  /// threads.
  std::optional<Shortage> peek(const StreamSchedule& offered, Micros faster_than,
                               Sights& sights) const;
  /// Where cores are idle: probe(0) to probe(count - 1) side by side, which peek at what is tried
  /// next whatever they see. It will say and do the same as without, and take no longer than to
  /// remember.
  void look_ahead(std::size_t count,
                  const std::function<void(std::size_t i, Sights& sights)>& probe);
  void look_ahead(std::span<const RingTry> tries, Micros faster_than);
  bool is_better(const StreamDraft& draft) const;
  bool lost(const StreamSchedule& schedule, const Plan& plan) const;
  Micros least_on_drives(double spared) const;
  ActivationPolicies asked_policies(const StreamSchedule& schedule) const;

  /// Where what rests on no device does.
  enum class Resting { by_value, on_drives };

  Attempt find_homes();
  Plan plan_at_rest(const PlanQuestion& question, const StreamSchedule& schedule) const;
  std::optional<StreamSchedule> fewest_at_home(StreamSchedule schedule, int elsewhere,
                                               Bytes on_drives) const;
  std::optional<StreamSchedule> least_at_home(Bytes on_drives);
  bool devices_hold(const StreamSchedule& schedule) const;
  Attempt rest_on_devices(Attempt lacking);
  bool rest_elsewhere(StreamSchedule& schedule, Bytes left_free) const;
  bool leave_free(StreamSchedule& schedule, const Shortage& lacking) const;
  Plan settle(Rated& rated) const;
  Plan with_full_dram(Rated& rated, Plan plan) const;
  StreamSchedule at_rest(StreamSchedule schedule, bool swaps_to_drive) const;
  StreamSchedule as_asked(const StreamSchedule& offered) const;

  StreamDraft refine_policies(StreamDraft draft);
  StreamDraft with_policies(StreamDraft draft, PolicyTrials trials);
  StreamDraft more_at_home(StreamDraft draft);
  StreamDraft neighbouring_homes(StreamDraft draft);
  void exchange_homes(const StreamDraft& draft);
  void crowded_homes(StreamDraft draft);
  std::vector<StreamDraft> packed_homes(const StreamDraft& draft, int slots);
  StreamSchedule packed(StreamSchedule schedule) const;
  StreamDraft most_at_home(StreamDraft draft);
  /// What takes the memory that forward's outputs leave: sums that wait, then weights; weights
  /// alone; or the first, and what is not kept leaves for DRAM in place of being computed again.
  enum class Fills { sums, weights, sums_and_leave };
  /// So many whole blocks at home, and what fits beside them.
  struct Fill {
    StreamSchedule visits;
    KeptSlots slots;  // kept_slots() of the visits
    Fills rest = Fills::sums;
    HomeCounts whole;  // all, all_elsewhere and passing
  };
  StreamDraft best_passing(StreamDraft draft);
  StreamDraft best_elsewhere(StreamDraft draft);
  std::vector<StreamDraft> dense_homes(const StreamDraft& draft);
  StreamDraft restaged(StreamDraft draft);
  std::vector<StreamDraft> starts(const StreamDraft& draft);
  std::vector<StreamDraft> in_part(std::span<const StreamDraft> starts);
  StreamDraft with_waiting(StreamDraft draft);
  StreamDraft with_states_in_part(StreamDraft draft);
  StreamDraft best_waiting_in_dram(StreamDraft draft);
  StreamSchedule waiting(StreamSchedule schedule, int sums, bool BlockHome::*where) const;
  StreamDraft best_renewed(StreamDraft draft);
  StreamDraft with_renewals(StreamDraft draft);
  bool may_update_ahead(const StreamSchedule& schedule) const;
  bool may_renew_at_once(const StreamSchedule& schedule) const;
  StreamDraft best_fill(StreamDraft draft, Fill fill);
  int most_whole(const Fill& fill);
  std::optional<int> most_kept(const Fill& fill);
  StreamSchedule filled(const Fill& fill, int kept);
  std::optional<StreamSchedule> filled(const Fill& fill);
  void look_ahead(std::span<const Fill> fills, Micros faster_than);
  StreamSchedule with(const Fill& fill, int kept, const HomeCounts& counts) const;
  bool may_keep() const;
  Fill fill_of(StreamSchedule visits, const StreamDraft& draft, Fills rest,
               const HomeCounts& whole) const;
  std::vector<Bytes> needs_at_rest(const StreamSchedule& schedule) const;
  bool lacks_device_memory(const StreamSchedule& schedule) const;
  bool is_roomy(const StreamSchedule& schedule);
  StreamDraft refine_rings_and_updates(StreamDraft draft);
  StreamDraft best_policies(StreamDraft draft, PolicyTrials trials);
  StreamDraft best_policies_of(StreamDraft draft, StreamSchedule schedule, PolicyTrials trials);
  Ideal ideal_of(const StreamSchedule& schedule, bool swaps_to_drive, const KeptSlots& slots);
  bool has_room_for(const StreamSchedule& schedule, const KeptSlots& slots, Bytes dram);
  StreamDraft best_rings(StreamDraft draft);
  StreamDraft neighbouring_rings(StreamDraft draft);
  /// The draft, or the fastest of what choose(schedule, choice) makes of its schedule.
  template <typename Choices, typename Choose>
  StreamDraft fastest_by(StreamDraft draft, const Choices& choices, Choose choose) {
    std::vector<StreamSchedule> chosen(std::size(choices), draft.schedule);
    for (std::size_t i = 0; i < chosen.size(); ++i) choose(chosen[i], choices[i]);
    return fastest_of(std::move(draft), chosen);
  }
  StreamDraft best_updates(StreamDraft draft);
  StreamSchedule staged(StreamSchedule schedule) const;
  StreamDraft best_staging(StreamDraft draft);
  StreamDraft best_ahead(StreamDraft draft);
  enum class Counts { any, near };
  StreamDraft best_again(StreamDraft draft, bool lands);
  StreamDraft best_count(StreamDraft draft, int StreamSchedule::*count, int most, Counts tried);
  void search_blocks(const std::vector<Found>& found, double most_gain);
  StreamDraft best_blocks(StreamDraft draft, double most_gain);
  bool gains_little() const;
  Micros to_beat() const;
  int block_tries(const StreamDraft& draft) const;
  BlockMoves block_moves(const StreamSchedule& schedule) const;
  std::vector<Bytes> room_beside(const StreamSchedule& schedule) const;
  std::vector<Rated> rate_neighbours(const StreamSchedule& here, BlockMoves& moves,
                                     Micros faster_than) const;
  std::optional<StreamSchedule> neighbour(const StreamSchedule& here,
                                          const std::vector<Bytes>& room, BlockMoves& moves) const;
  std::optional<StreamDraft> straight(const StreamDraft& draft, std::optional<StreamDraft> sent);
  StreamDraft refined_straight(StreamDraft draft);

  int all_activations() const;
  StreamSchedule with_slots(StreamSchedule schedule, int slots) const;
  StreamSchedule with_roomy_saved_ring(StreamSchedule schedule) const;

  const PlanQuestion& asked_;
  PlanQuestion question_;  // with the devices of the rung
  const Chain& chain_;
  const AccessOrder accesses_;
  const StepSimulator simulator_;
  Passes passes_;
  const bool homes_;  // on devices too
  const bool sends_;  // some devices have p2p
  Resting resting_ = Resting::by_value;
  DramNeed needed_;   // by the schedule of least memory with everything there
  Bytes swap_slots_;  // of DRAM, that activations pass through which leave for the drives
  StreamSchedule least_memory_;  // from the first rung on with the best staging
  bool is_staged_ = false;
  std::ptrdiff_t tasks_ = 0;                          // of that schedule's plan
  Bytes least_peak_;                                  // likewise, of a device
  std::unordered_map<std::string, Verdict> tried_;    // by key_of()
  std::unordered_map<std::string, Seen> seen_ahead_;  // on the rung, by key_of()
  std::unordered_map<std::string, Ideal> ideals_;     // likewise, and whether it may swap to drives
  std::unordered_map<std::string, std::vector<Bytes>>
      roomy_needs_;              // by key_before_rest() and device
  std::ptrdiff_t written_ = 0;   // tasks of large plans
  Drafts<StreamDraft> offered_;  // on the rung
  std::vector<StreamSchedule> regular_;
  std::vector<StreamSchedule> even_;  // visits that start() was given
  std::optional<StreamSchedule> pipeline_;
  Bytes rung_;                       // of all devices that have the most; 0: as asked
  bool is_beforehand_ = false;       // try_beforehand() is in progress
  bool wants_memory_ = false;        // something that was tried on the rung
  Micros fastest_;                   // of all that was tried
  std::optional<StreamDraft> best_;  // of what the devices hold
  std::vector<StreamDraft> best_by_rung_;
};

/// Whether simulations are so short that more schedules can be tried and refined.
bool is_small_step(const PlanQuestion& question, const Chain& chain);

/// One block per stage: {1, 2, ..., blocks}.
std::vector<int> finest_partition(const Chain& chain);

}  // namespace ferry
