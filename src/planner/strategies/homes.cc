#include "planner/strategies/homes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <set>
#include <utility>
#include <vector>

#include "plan/purposes.h"
#include "planner/write/activation_policy.h"
#include "planner/write/residence.h"
#include "planner/write/staging.h"
#include "planner/write/stream_plan.h"
#include "spec/drive_array.h"

namespace ferry {
namespace {

// What is larger stays in DRAM, so that the slots through which others pass are no larger.
struct Largest {
  Bytes states = kEverything;
  Bytes weights = kEverything;
};

/// What the block's states have to have room for on their way.
Bytes passing_states(const StreamSchedule& schedule, const ChainBlock& block) {
  return schedule.staging.pieces > 0 ? block.state_piece : block.states;
}

class Eviction {
 public:
  /// Of what rests on no device. `inputs`: what those of all blocks take of DRAM.
  Eviction(const PlanQuestion& question, const Chain& chain, const StreamSchedule& schedule,
           Bytes inputs = {}, Largest largest = {})
      : question_(question),
        chain_(chain),
        inputs_(inputs),
        largest_(largest),
        schedule_(schedule),
        has_drives_(has_drives(question.machine)) {
    schedule_.homes.resize(chain.size());
    schedule_.activations_on_drive.assign(chain.size(), false);
    const Residence residence(question, chain, schedule_);
    landing_ = landing_sums(chain, residence);
    for (const BlockId b : chain.blocks.ids()) {
      sum_waits_.push_back(residence.sum_waits_on_host(b.number()));
      sum_stays_.push_back(residence.waits_in_place_of_again(b.number()) ||
                           residence.updates_last(b.number()));
      const bool again = question.norm_first && b.number() >= schedule_.again_from;
      const bool goes_down = b > BlockId(0) && !schedule_.homes[b.index()].input_stays;
      input_goes_.push_back(goes_down && !again);
    }
    reads_apart_ = residence.reads_apart();
  }

  /// Moves one thing after the other until what is freed covers `lack`, which grows with what
  /// values of the drives pass through. Then what was moved in vain comes back.
  void run(Bytes lack) {
    lack_ = lack;
    // Without clipping a sum is used up when it lands, so the ring costs the drives nothing.
    const int blocks = static_cast<int>(chain_.size());
    pass_sums_through(sums_wait(question_) ? schedule_.sums_leave_first : blocks);
    if (!has_drives_) return;
    for (const BlockId b : schedule_.leaving.empty() ? deepest_first(chain_) : schedule_.leaving) {
      if (is_enough()) break;
      const ChainBlock& block = chain_.blocks[b];
      if (!may_leave(b.index()) || passing_states(schedule_, block) > largest_.states) continue;
      set(&BlockHome::state_on_drive, b.index(), true);
      move(block.states, kReadAndWritten);
    }
    if (schedule_.sums_leave_first > 0) keeps_share_ = is_enough();
    pass_sums_through(blocks);
    const bool train = question_.mode == PlanMode::train;
    for (std::size_t b = 1; b < chain_.size() && train && !is_enough(); ++b) {
      schedule_.activations_on_drive[b] = true;
      shared_.reset();
      move(chain_.activation * question_.micro_batches, kReadAndWritten);
    }
    for (std::size_t b = chain_.size(); b-- > 0 && !is_enough();) {
      const Bytes weights = chain_.blocks[b].weights;
      if (!may_leave(b) || weights > largest_.weights) continue;
      set(&BlockHome::weight_on_drive, b, true);
      move(weights, kReadTwiceAndWritten);
    }
    bring_back();
  }

  bool is_enough() { return freed_ >= lack_ && spare() >= Bytes{}; }
  bool weights_leave() const {
    return std::ranges::any_of(schedule_.homes, &BlockHome::weight_on_drive);
  }
  /// Whether it comes before the other: a share of the sums that the schedule asks for is kept to,
  /// then what moves between DRAM and drives per step, about.
  bool is_better_than(const Eviction& other) const {
    if (keeps_share_ != other.keeps_share_) return keeps_share_;
    return traffic_ < other.traffic_;
  }
  const StreamSchedule& schedule() const { return schedule_; }

 private:
  static constexpr int kReadAndWritten = 2;
  static constexpr int kReadTwiceAndWritten = 3;

  bool may_leave(std::size_t block) const {
    return chain_.blocks[block].trainable && !schedule_.homes[block].on_device;
  }

  void move(Bytes bytes, int times) {
    freed_ += bytes;
    traffic_ += bytes * times;
  }

  /// Of the deepest blocks, of all where that costs the drives nothing: theirs land first and are
  /// used last. Without drives those that wait for nothing.
  void pass_sums_through(int most) {
    if (is_enough() || question_.mode != PlanMode::train) return;
    for (std::size_t b = chain_.size(); b-- > 0 && most > 0;) {
      const BlockHome& home = schedule_.homes[b];
      if (landing_[b] == Bytes{} || home.sum_passes) continue;
      if (sum_stays_[b] || (sum_waits_[b] && !has_drives_)) continue;
      if (sums_wait(question_) && is_enough()) return;
      set(&BlockHome::sum_passes, b, true);
      set(&BlockHome::sum_on_drive, b, sum_waits_[b]);
      --most;
      if (!home.on_device) move(landing_sum(chain_.blocks[b]), times_of_sums());
    }
  }

  int times_of_sums() const { return sums_wait(question_) ? kReadAndWritten : 0; }

  /// The last one moved may be larger than what was lacking: weights first, which save most; of
  /// sums that wait for the norm those whose updates come first.
  void bring_back() {
    Bytes left = spare();
    if (!is_enough()) return;
    for (std::size_t b = 0; b < chain_.size(); ++b) {
      stay_if_enough(&BlockHome::weight_on_drive, b, chain_.blocks[b].weights, kReadTwiceAndWritten,
                     left);
    }
    for (std::size_t b = 0; b < chain_.size(); ++b) {
      stay_if_enough(&BlockHome::state_on_drive, b, chain_.blocks[b].states, kReadAndWritten, left);
    }
    for (const BlockId b : chain_.blocks.ids()) {
      if (schedule_.parts_states) bring_pieces_back(b, left);
    }
    for (std::size_t b = 0; b < chain_.size() && sums_wait(question_); ++b) {
      if (schedule_.homes[b].on_device) continue;
      stay_if_enough(&BlockHome::sum_passes, b, landing_sum(chain_.blocks[b]), times_of_sums(),
                     left);
    }
  }

  void stay_if_enough(bool BlockHome::*leaves, std::size_t block, Bytes bytes, int times,
                      Bytes& left) {
    if (!(schedule_.homes[block].*leaves) || bytes > left) return;
    set(leaves, block, false);
    move(Bytes{} - bytes, times);
    if (const Bytes now = spare(); now >= Bytes{}) {
      left = now;
      return;
    }
    set(leaves, block, true);
    move(bytes, times);
  }

  /// Of states that rest on drives, as many pieces as there is room for.
  void bring_pieces_back(BlockId block, Bytes& left) {
    const ChainBlock& costs = chain_.blocks[block];
    BlockHome& home = schedule_.homes[block.index()];
    if (!home.state_on_drive || left < costs.state_piece) return;
    home.pieces_in_dram = static_cast<int>(
        std::min<std::int64_t>(state_pieces(costs) - 1, left.count / costs.state_piece.count));
    const Bytes bytes = costs.state_piece * home.pieces_in_dram;
    move(Bytes{} - bytes, kReadAndWritten);
    left = left - bytes;
  }

  void set(bool BlockHome::*flag, std::size_t block, bool to) {
    schedule_.homes[block].*flag = to;
    if (flag == &BlockHome::state_on_drive) states_.reset();
    if (flag == &BlockHome::weight_on_drive) weights_.reset();
    if (flag != &BlockHome::sum_passes) return;
    sums_.reset();
    shared_.reset();
  }

  /// Beyond what is lacking. Of what it adds up only that is counted anew which has changed: it is
  /// asked after every move.
  Bytes spare() {
    if (!states_) states_ = room_for_states(chain_, schedule_);
    if (!weights_) weights_ = room_for_weights(chain_, schedule_) * (reads_apart_ ? 2 : 1);
    if (!sums_) sums_ = room_for_sums(schedule_, landing_);
    if (!shared_) shared_ = shared();
    return freed_ + *shared_ - lack_ - *states_ - *weights_ - *sums_ -
           room_for_activations(chain_, schedule_);
  }

  /// Where sums wait in DRAM that came when inputs were read (host_slots.h), about.
  Bytes shared() const {
    if (!question_.shares_dram) return {};
    std::int64_t inputs = 0;
    Bytes sums;
    for (std::size_t b = 0; b < chain_.size(); ++b) {
      const BlockHome& home = schedule_.homes[b];
      if (input_goes_[b] && !schedule_.activations_on_drive[b]) ++inputs;
      if (sum_waits_[b] && !home.sum_passes && !home.on_device) sums += landing_[b];
    }
    const auto all = static_cast<std::int64_t>(chain_.size());
    return std::min(Bytes{inputs_.count / all * inputs}, sums);
  }

  const PlanQuestion& question_;
  const Chain& chain_;
  const Bytes inputs_;
  const Largest largest_;
  StreamSchedule schedule_;
  const bool has_drives_;
  std::vector<Bytes> landing_;
  std::vector<bool> sum_waits_;
  std::vector<bool> sum_stays_;   // on drives it would cost more than to compute it again
  std::vector<bool> input_goes_;  // to DRAM, until a backward that is followed by no other
  bool reads_apart_ = false;      // Residence::reads_apart()
  std::optional<Bytes> states_, weights_, sums_;  // what they pass through
  std::optional<Bytes> shared_;                   // shared()
  Bytes lack_;
  Bytes freed_;
  Bytes traffic_;
  bool keeps_share_ = true;  // no more sums leave than the schedule asks for, if it does
};

// Two by two, the deeper of each first.
std::vector<BlockId> spread_in_pairs(const Chain& chain) {
  std::vector<BlockId> order;
  const int blocks = static_cast<int>(chain.size());
  for (const BlockId pair : spread_evenly((chain.size() + 1) / 2)) {
    for (const int b : {2 * pair.number(), 2 * pair.number() - 1}) {
      if (b >= 0 && b < blocks) order.push_back(BlockId(b));
    }
  }
  if (blocks % 2 == 0) order.push_back(BlockId(blocks - 1));
  return order;
}

// What the host has no part in, of blocks at home on devices.
Bytes rests_on_devices(const Chain& chain, const StreamSchedule& schedule) {
  Bytes bytes;
  for (std::size_t b = 0; b < schedule.homes.size(); ++b) {
    const ChainBlock& block = chain.blocks[b];
    if (schedule.homes[b].on_device) bytes += block.weights + block.states + landing_sum(block);
  }
  return bytes;
}

// Of a block that is at home on no device.
Bytes states_in_dram(const ChainBlock& block, const BlockHome& home) {
  if (home.state_on_drive) return block.state_piece * home.pieces_in_dram;
  return round_up(block.states, kHomeAlignment);
}

PlaceId host_of(const Plan& plan) {
  return plan.places.id_of(std::ranges::find(plan.places, PlaceKind::host, &Place::kind));
}

Bytes most_of(PlaceKind kind, const Plan& plan) {
  Bytes most;
  for (const PlaceId id : plan.places.ids()) {
    if (plan.places[id].kind == kind) most = std::max(most, peak_bytes(plan, id));
  }
  return most;
}

}  // namespace

std::vector<std::vector<BlockId>> leaving_orders(const Chain& chain) {
  return {{}, spread_evenly(chain.size()), spread_in_pairs(chain)};
}

void rest_all_on_drives(const PlanQuestion& question, const Chain& chain,
                        StreamSchedule& schedule) {
  Eviction eviction(question, chain, schedule);
  eviction.run(kEverything);
  schedule = eviction.schedule();
}

void rest_by_value(const PlanQuestion& question, const Chain& chain, const DramNeed& needed,
                   Bytes limit, StreamSchedule& schedule) {
  const Bytes lack = needed.all - rests_on_devices(chain, schedule) - limit;
  if (lack <= Bytes{}) return;
  std::set<Bytes> states, weights;
  for (const ChainBlock& block : chain.blocks) {
    states.insert(passing_states(schedule, block));
    weights.insert(block.weights);
  }
  std::optional<Eviction> least;
  for (const Bytes of_states : states | std::views::reverse) {
    bool is_enough = false;  // with weights of any size
    for (const Bytes of_weights : weights | std::views::reverse) {
      Eviction eviction(question, chain, schedule, needed.inputs, {of_states, of_weights});
      eviction.run(lack);
      if (least && !eviction.is_enough()) break;
      is_enough = true;
      const bool weights_leave = eviction.weights_leave();
      if (!least || eviction.is_better_than(*least)) least.emplace(std::move(eviction));
      if (!weights_leave) break;
    }
    if (!is_enough || !has_drives(question.machine)) break;  // without drives no size leaves DRAM
  }
  schedule = least->schedule();
}

DramNeed dram_need(PlanQuestion question, const Chain& chain, const StreamSchedule& schedule) {
  question.host_budget = question.machine.host.memory = kEverything;
  const Plan plan = write_stream_plan(question, chain, schedule, TaskNames::none);
  return {host_peak(plan), bytes_by_purpose(plan, host_of(plan))[Purpose::activations]};
}

std::optional<Bytes> more_in_dram(const Chain& chain, const StreamSchedule& now,
                                  const StreamSchedule& then) {
  if (now.activations_on_drive != then.activations_on_drive) return std::nullopt;
  Bytes more = room_for_states(chain, then) - room_for_states(chain, now);
  for (const BlockId b : chain.blocks.ids()) {
    BlockHome home = home_of_block(now, b);
    const BlockHome home_then = home_of_block(then, b);
    more =
        more - states_in_dram(chain.blocks[b], home) + states_in_dram(chain.blocks[b], home_then);
    home.state_on_drive = home_then.state_on_drive;
    home.pieces_in_dram = home_then.pieces_in_dram;
    if (home != home_then) return std::nullopt;
  }
  return more;
}

Bytes host_peak(const Plan& plan) { return peak_bytes(plan, host_of(plan)); }

Bytes room_in_forward(const Plan& plan, Bytes limit) {
  return limit - host_peak(plan) + bytes_by_purpose(plan, host_of(plan))[Purpose::gradients];
}

Bytes drive_peak(const Plan& plan) { return most_of(PlaceKind::drive, plan); }

Bytes device_peak(const Plan& plan) { return most_of(PlaceKind::device, plan); }

}  // namespace ferry
