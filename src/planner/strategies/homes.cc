#include "planner/strategies/homes.h"

#include <algorithm>
#include <cstddef>

namespace ferry {
namespace {

// All gradient sums of a step.
Bytes all_sums(const PlanQuestion& question, const Chain& chain) {
  Bytes sums;
  if (question.mode != PlanMode::train) return sums;
  for (const ChainBlock& block : chain.blocks) sums += landing_sum(block);
  return sums;
}

class Eviction {
 public:
  Eviction(const PlanQuestion& question, const Chain& chain, StreamSchedule& schedule)
      : question_(question), chain_(chain), schedule_(schedule) {
    schedule_.homes.assign(chain.size(), {});
    schedule_.activations_on_drive.assign(chain.size(), false);
  }

  /// Moves one thing after the other until `freed()` covers `lack`; the lack grows with the slots
  /// through which values of the drives pass.
  void run(Bytes lack) {
    // Without clipping a sum is used up when it lands, so the ring costs the drives nothing.
    if (!question_.clips) pass_sums_through_ring(lack);
    for (std::size_t b = chain_.size(); b-- > 0 && freed_ < lack + staging();) {
      schedule_.homes[b].state_on_drive = chain_.blocks[b].trainable;
      freed_ += chain_.blocks[b].states;
      most_states_ = std::max(most_states_, chain_.blocks[b].states);
    }
    if (question_.clips) pass_sums_through_ring(lack);
    const bool train = question_.mode == PlanMode::train;
    for (std::size_t b = 1; b < chain_.size() && train && freed_ < lack + staging(); ++b) {
      schedule_.activations_on_drive[b] = true;
      freed_ += chain_.activation * question_.micro_batches;
      most_activation_ = chain_.activation * 2;
    }
    for (std::size_t b = chain_.size(); b-- > 0 && freed_ < lack + staging();) {
      schedule_.homes[b].weight_on_drive = chain_.blocks[b].trainable;
      freed_ += chain_.blocks[b].weights;
      most_weights_ = std::max(most_weights_, chain_.blocks[b].weights);
    }
  }

 private:
  void pass_sums_through_ring(Bytes lack) {
    const Bytes sums = all_sums(question_, chain_);
    if (freed_ >= lack + staging() || sums == Bytes{}) return;
    schedule_.gradients_on_drive = true;
    freed_ += sums;
    for (const ChainBlock& block : chain_.blocks) {
      most_sum_ = std::max(most_sum_, landing_sum(block));
    }
  }

  Bytes staging() const {
    return (most_states_ + most_sum_ + most_activation_ + most_weights_) * schedule_.staging_slots;
  }

  const PlanQuestion& question_;
  const Chain& chain_;
  StreamSchedule& schedule_;
  Bytes freed_;
  Bytes most_states_;
  Bytes most_sum_;
  Bytes most_activation_;
  Bytes most_weights_;
};

}  // namespace

void rest_all_on_drives(const PlanQuestion& question, const Chain& chain,
                        StreamSchedule& schedule) {
  constexpr Bytes kEverything{std::int64_t{1} << 62};
  Eviction(question, chain, schedule).run(kEverything);
}

void rest_by_value(const PlanQuestion& question, const Chain& chain, Bytes needed, Bytes limit,
                   StreamSchedule& schedule) {
  if (needed <= limit) return;
  // Alignment of slots, and what is kept of sums in the ring.
  const Bytes margin = Bytes{4096} * static_cast<std::int64_t>(4 * chain.size());
  Eviction(question, chain, schedule).run(needed - limit + margin);
}

}  // namespace ferry
