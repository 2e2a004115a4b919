#include "planner/write/residence.h"

#include <algorithm>

#include "base/check.h"

namespace ferry {

Residence::Residence(const PlanQuestion& question, const Chain& chain,
                     const StreamSchedule& schedule)
    : question_(question),
      chain_(chain),
      schedule_(schedule),
      trains_(question.mode == PlanMode::train),
      keeps_activations_(std::ranges::count(schedule.policies, ActivationPolicy::keep) > 0),
      devices_(devices_of_blocks(chain, schedule)),
      backward_visits_(chain.size()),
      updates_ahead_(chain.size()),
      reads_weight_(schedule.devices, std::vector<bool>(chain.size())) {
  for (const StageVisit& visit : schedule.visits) {
    const bool backward = visit.direction != Direction::forward;
    for (int b = visit.first; b < visit.end; ++b) {
      if (backward) ++backward_visits_[b];
      if (reads_weight(visit, b)) {
        reads_weight_[visit.device][weight_owner(chain, b)] = true;
      }
    }
  }
  for (int b = 0; b < static_cast<int>(chain.size()); ++b) {
    const bool rests = home(b).on_device || home(b).input_stays;
    FERRY_CHECK(!rests || devices_.all[b] != kSeveralDevices,
                "a block at home on a device runs there alone");
    FERRY_CHECK(!home(b).sum_waits || devices_.backward[b] != kSeveralDevices,
                "a sum that waits is of one device");
  }
  choose_updates_ahead();
}

// What passes through slots on its way from drives is not there any more when the norm is known.
bool Residence::may_update_ahead(int block) const {
  const BlockHome at = home(block);
  return chain_.blocks[block].trainable && !at.on_device && !at.weight_on_drive &&
         !at.state_on_drive && !at.sum_passes && !gathers_sum(devices_.backward[block], block);
}

// Those whose weights come up ahead, and of the others the first whose sums land.
void Residence::choose_updates_ahead() {
  if (!trains_ || !sums_wait(question_)) return;
  for (int b = 0; b < static_cast<int>(chain_.size()); ++b) {
    if (home(b).renews_at_once && may_update_ahead(b)) updates_ahead_[b] = true;
  }
  int left = schedule_.updates_ahead;
  for (const StageVisit& visit : schedule_.visits) {
    if (visit.direction == Direction::forward || visit.end_batch < question_.micro_batches)
      continue;
    for (int b = visit.end - 1; b >= visit.first && left > 0; --b) {
      if (!may_update_ahead(b) || updates_ahead_[b]) continue;
      updates_ahead_[b] = true;
      --left;
    }
  }
}

// The first block's backward reads none.
bool Residence::reads_weight(const StageVisit& visit, int block) const {
  const bool forward = visit.direction != Direction::backward && has_forward(chain_.blocks[block]);
  return forward || (visit.direction != Direction::forward && block > 0);
}

bool Residence::keeps_weight(int device, int block) const {
  return home(block).weight_stays && !at_home(device, block) && reads_weight_[device][block];
}

bool Residence::keeps_sum(int device, int block) const {
  if (!trains_ || !gathers_sum(device, block) || chain_.blocks[block].gradients == Bytes{}) {
    return false;
  }
  if (backward_visits_[block] > 1) return true;
  const bool tied = chain_.blocks[block].reads_weight.valid();  // its owner adds it later
  return tied || (!rounds(block) && (home(block).sum_waits || updates_wait(block)));
}

bool Residence::rounds(int block) const {
  if (chain_.blocks[block].rounded == Bytes{}) return false;
  if (!home(block).on_device) return true;
  return updates_wait(block) && backward_visits_[block] == 1 && !home(block).sum_waits;
}

bool Residence::renews_at_once(int block) const {
  const BlockHome at = home(block);
  if (!at.renews_at_once) return false;
  if (updates_wait(block)) return updates_ahead_[block];
  if (updates_last(block)) return false;
  return trains_ && chain_.blocks[block].trainable && !at.on_device && !at.weight_on_drive;
}

Bytes Residence::workspace(int device) const {
  Bytes most;
  for (const StageVisit& visit : schedule_.visits) {
    if (visit.device != device) continue;
    for (int b = visit.first; b < visit.end; ++b) {
      const ChainBlock& block = chain_.blocks[b];
      const bool keeps = saves(schedule_.policies, b);
      if (visit.direction != Direction::backward && has_forward(block)) {
        most = std::max(most, forward_workspace(block, keeps));
      }
      if (visit.direction != Direction::forward) {
        most = std::max(most, backward_workspace(block, keeps));
      }
      if (updates(device, b)) most = std::max(most, block.device_update_workspace);
    }
  }
  return most;
}

}  // namespace ferry
