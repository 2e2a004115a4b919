#include "plan/task_signature.h"

#include <algorithm>
#include <cstddef>

namespace ferry {
namespace {

BlockId above(BlockId block) { return ++block; }

std::ptrdiff_t rank_in(std::span<const Part> order, Part part) {
  return std::ranges::find(order, part) - order.begin();
}

/// A stable sort of the few accesses of a task, by insertion: std::stable_sort takes memory.
void list_in(std::span<const Part> order, std::vector<Access>& accesses) {
  for (auto at = accesses.begin(); !order.empty() && at != accesses.end(); ++at) {
    const auto rank = rank_in(order, at->part);
    const auto place = std::find_if(accesses.begin(), at, [&](const Access& earlier) {
      return rank_in(order, earlier.part) > rank;
    });
    std::rotate(place, at, at + 1);
  }
}

}  // namespace

TaskSignatures::TaskSignatures(const Plan& plan)
    : plan_(plan),
      has_weight_(plan.blocks.size()),
      pieces_(plan.blocks.size()),
      rounds_(plan.blocks.size()),
      ahead_(plan.blocks.size()) {
  for (const Value& value : plan.values) {
    if (value.kind == ValueKind::weight) has_weight_[value.block] = true;
    if (value.kind == ValueKind::state && value.piece >= 0) ++pieces_[value.block];
    if (value.kind == ValueKind::rounded) rounds_[value.block] = true;
    if (value.kind == ValueKind::original) ahead_[value.block] = true;
  }
  for (const BlockId b : plan.blocks.ids()) {
    if (plan.blocks[b].reads_weight.valid()) tied_.push_back(b);
  }
}

bool TaskSignatures::sums_gradient(BlockId block) const {
  const PlanBlock& facts = plan_.blocks[block];
  return facts.trainable || facts.reads_weight.valid();
}

bool TaskSignatures::is_fused(BlockId block) const {
  return plan_.mode == PlanMode::train && plan_.blocks[block].fused;
}

bool TaskSignatures::may_save(BlockId block) const {
  return plan_.mode == PlanMode::train && block != BlockId(0) && !is_fused(block);
}

void TaskSignatures::fill(const Task& task, TaskSignature& signature) const {
  const BlockId block = task.block;
  const int micro_batch = task.micro_batch;
  signature.reads.clear();
  signature.writes.clear();
  switch (task.kind) {
    case TaskKind::load:
      signature.writes.push_back({Part::tokens, {ValueKind::tokens, {}, micro_batch}});
      break;
    case TaskKind::forward:
      fill_forward(block, micro_batch, signature);
      break;
    case TaskKind::backward:
      fill_backward(block, micro_batch, signature);
      break;
    case TaskKind::clip:
      fill_clip(signature);
      break;
    case TaskKind::update:
      fill_update(block, task.piece, signature);
      break;
    case TaskKind::redo:
      fill_redo(block, signature);
      break;
    case TaskKind::copy:
    case TaskKind::work:
      break;
  }
}

bool TaskSignatures::takes(const Task& task, bool keeps, const Access& access,
                           const Listing& listing) const {
  switch (access.when) {
    case When::always:
      return true;
    case When::not_first:
      return task.micro_batch > 0;
    case When::last:
      return task.micro_batch + 1 == plan_.micro_batches;
    case When::kept:
      return keeps;
    case When::at_will:
      return access.part == listing.at_will;
  }
  return false;
}

void TaskSignatures::write(Task& task, bool keeps, const Where& where, const Listing& listing) {
  fill(task, written_);
  const auto list = [&](std::vector<Access>& accesses, FewIds<InstanceId>& ids, bool write) {
    list_in(listing.order, accesses);
    ids.reserve(accesses.size());
    for (const Access& access : accesses) {
      if (takes(task, keeps, access, listing)) ids.push_back(where(access, write));
    }
  };
  list(written_.reads, task.reads, false);
  list(written_.writes, task.writes, true);
}

void TaskSignatures::add_weights(BlockId block, When when, TaskSignature& signature) const {
  const BlockId tied = plan_.blocks[block].reads_weight;
  if (has_weight_[block]) {
    signature.reads.push_back({Part::weight, {ValueKind::weight, block, -1}, when});
  }
  if (tied.valid()) {
    signature.reads.push_back({Part::tied_weight, {ValueKind::weight, tied, -1}, when});
  }
}

void TaskSignatures::fill_forward(BlockId block, int micro_batch, TaskSignature& signature) const {
  auto& [reads, writes] = signature;
  const bool first = block == BlockId(0);
  add_weights(block, When::always, signature);
  if (!first) reads.push_back({Part::input, {ValueKind::activation, block, micro_batch}});
  if (first || is_last(block)) {
    reads.push_back({Part::tokens, {ValueKind::tokens, {}, micro_batch}});
  }
  if (is_last(block)) {
    writes.push_back({Part::loss, {ValueKind::loss, {}, micro_batch}});
  } else {
    writes.push_back({Part::output, {ValueKind::activation, above(block), micro_batch}});
  }
  if (may_save(block)) {
    writes.push_back({Part::saved, {ValueKind::saved, block, micro_batch}, When::kept});
  }
}

void TaskSignatures::fill_backward(BlockId block, int micro_batch, TaskSignature& signature) const {
  auto& [reads, writes] = signature;
  const bool first = block == BlockId(0);
  if (!first) {
    reads.push_back({Part::input, {ValueKind::activation, block, micro_batch}});
    writes.push_back({Part::input_gradient, {ValueKind::activation_gradient, block, micro_batch}});
  }
  if (first) reads.push_back({Part::tokens, {ValueKind::tokens, {}, micro_batch}});
  add_weights(block, first ? When::at_will : When::always, signature);
  if (is_fused(block)) {
    if (!first) reads.push_back({Part::tokens, {ValueKind::tokens, {}, micro_batch}});
    writes.push_back({Part::loss, {ValueKind::loss, {}, micro_batch}});
  } else {
    reads.push_back(
        {Part::output_gradient, {ValueKind::activation_gradient, above(block), micro_batch}});
  }
  if (may_save(block)) {
    reads.push_back({Part::saved, {ValueKind::saved, block, micro_batch}, When::kept});
  }
  if (!sums_gradient(block)) return;
  const ValueKey sum{ValueKind::gradient, block, -1};
  reads.push_back({Part::gradient, sum, When::not_first});
  writes.push_back({Part::gradient, sum});
  for (const BlockId head : tied_) {
    if (plan_.blocks[head].reads_weight != block) continue;
    reads.push_back({Part::tied_gradient, {ValueKind::gradient, head, -1}, When::last});
  }
  // The norm of a tied head's sum is in that of the block that owns the weights.
  const When normed = plan_.blocks[block].trainable ? When::last : When::at_will;
  writes.push_back({Part::norm, {ValueKind::norm, block, -1}, normed});
  if (rounds_[block]) {
    writes.push_back({Part::rounded, {ValueKind::rounded, block, -1}, When::last});
  }
}

void TaskSignatures::fill_clip(TaskSignature& signature) const {
  const bool trains = plan_.mode == PlanMode::train;
  for (const BlockId b : plan_.blocks.ids()) {
    if (!trains || !plan_.blocks[b].trainable) continue;
    signature.reads.push_back({Part::norm, {ValueKind::norm, b, -1}});
  }
  for (int m = 0; m < plan_.micro_batches; ++m) {
    signature.reads.push_back({Part::loss, {ValueKind::loss, {}, m}});
  }
  if (trains && plan_.clips) signature.writes.push_back({Part::clip, {ValueKind::clip, {}, -1}});
}

Access TaskSignatures::sum_of(BlockId block) const {
  if (rounds_[block]) return {Part::rounded, {ValueKind::rounded, block, -1}};
  return {Part::gradient, {ValueKind::gradient, block, -1}};
}

void TaskSignatures::fill_update(BlockId block, int piece, TaskSignature& signature) const {
  const Access weight{Part::weight, {ValueKind::weight, block, -1}};
  const Access state{Part::state, {ValueKind::state, block, -1, piece}};
  signature.reads = {weight, state, sum_of(block)};
  signature.writes = {weight, state};
  if (ahead_[block]) {
    signature.writes.push_back({Part::original, {ValueKind::original, block, -1}});
  } else if (plan_.clips) {
    signature.reads.push_back({Part::clip, {ValueKind::clip, {}, -1}});
  }
}

void TaskSignatures::fill_redo(BlockId block, TaskSignature& signature) const {
  const Access weight{Part::weight, {ValueKind::weight, block, -1}};
  const Access state{Part::state, {ValueKind::state, block, -1}};
  signature.reads = {weight,
                     state,
                     {Part::original, {ValueKind::original, block, -1}},
                     sum_of(block),
                     {Part::clip, {ValueKind::clip, {}, -1}}};
  signature.writes = {weight, state};
}

}  // namespace ferry
