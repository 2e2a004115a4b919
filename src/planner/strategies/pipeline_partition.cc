#include "planner/strategies/pipeline_partition.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "planner/write/allocate.h"
#include "planner/write/builder.h"

namespace ferry {
namespace {

constexpr int kGradientSlots = 2;  // a block reads one and writes another

}  // namespace

StageMemory::StageMemory(const PlanQuestion& question, const Chain& chain) : chain_(chain) {
  FERRY_CHECK(question.mode == PlanMode::train, "memory is that of training");
  resident_.emplace_back();
  for (const ChainBlock& block : chain.blocks) {
    Bytes own = slot_size(block.gradients);
    if (block.trainable) {
      own += round_up(block.weights, kHomeAlignment) + round_up(block.states, kHomeAlignment);
    }
    resident_.push_back(resident_.back() + own);
  }
}

Bytes StageMemory::need(int first, int end, int in_flight) const {
  const int blocks = static_cast<int>(chain_.size());
  Bytes need = resident_[end] - resident_[first];
  const int kept = end - std::max(first, 1);  // block 0 reads tokens
  need += slot_size(chain_.activation) * (std::int64_t{kept} * in_flight + kGradientSlots);
  if (first == 0 || end == blocks) need += slot_size(chain_.tokens) * in_flight;
  const ChainBlock& head = chain_.blocks.back();
  if (head.reads_weight >= 0) {
    const bool has_head = end == blocks;
    const bool has_owner = head.reads_weight >= first && head.reads_weight < end;
    if (has_head && !has_owner) need += slot_size(chain_.blocks[head.reads_weight].weights);
    if (has_owner && !has_head) need += slot_size(head.gradients);
  }
  Bytes workspace;
  for (int b = first; b < end; ++b) {
    const ChainBlock& block = chain_.blocks[b];
    if (has_forward(block)) workspace = std::max(workspace, block.forward_workspace);
    if (block.trainable) workspace = std::max(workspace, block.device_update_workspace);
    workspace = std::max(workspace, block.backward_workspace);
  }
  return need + workspace;
}

}  // namespace ferry
