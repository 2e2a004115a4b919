#include "plan/task_shape.h"

namespace ferry {

Shapes::Shapes(const Plan& plan) : plan_(plan), has_weight_(plan.blocks.size()) {
  for (const Value& value : plan.values) {
    if (value.kind == ValueKind::weight) has_weight_[value.block] = true;
  }
  for (std::size_t b = 0; b < plan.blocks.size(); ++b) {
    if (plan.blocks[b].reads_weight >= 0) tied_.push_back(static_cast<BlockId>(b));
  }
}

bool Shapes::sums_gradient(BlockId block) const {
  const PlanBlock& facts = plan_.blocks[block];
  return facts.trainable || facts.reads_weight >= 0;
}

bool Shapes::is_fused(BlockId block) const {
  return plan_.mode == PlanMode::train && plan_.blocks[block].fused;
}

bool Shapes::may_save(BlockId block) const {
  return plan_.mode == PlanMode::train && block > 0 && !is_fused(block);
}

void Shapes::fill(const Task& task, TaskShape& shape) const {
  shape.reads.clear();
  shape.writes.clear();
  switch (task.kind) {
    case TaskKind::load:
      shape.writes.push_back({{ValueKind::tokens, -1, task.micro_batch}});
      break;
    case TaskKind::forward:
      fill_forward(task, shape);
      break;
    case TaskKind::backward:
      fill_backward(task, shape);
      break;
    case TaskKind::clip:
      fill_clip(shape);
      break;
    case TaskKind::update:
      for (const auto kind : {ValueKind::weight, ValueKind::state, ValueKind::gradient}) {
        shape.reads.push_back({{kind, task.block, -1}});
      }
      if (plan_.clips) shape.reads.push_back({{ValueKind::clip, -1, -1}});
      shape.writes.push_back({{ValueKind::weight, task.block, -1}});
      shape.writes.push_back({{ValueKind::state, task.block, -1}});
      break;
    case TaskKind::copy:
    case TaskKind::work:
      break;
  }
}

void Shapes::add_weights(BlockId block, bool required, TaskShape& shape) const {
  const PlanBlock& facts = plan_.blocks[block];
  if (has_weight(block)) shape.reads.push_back({{ValueKind::weight, block, -1}, required});
  if (facts.reads_weight >= 0) {
    shape.reads.push_back({{ValueKind::weight, facts.reads_weight, -1}, required});
  }
}

void Shapes::fill_forward(const Task& task, TaskShape& shape) const {
  const bool last = static_cast<std::size_t>(task.block) + 1 == plan_.blocks.size();
  const ValueKey tokens{ValueKind::tokens, -1, task.micro_batch};
  add_weights(task.block, true, shape);
  if (task.block > 0) {
    shape.reads.push_back({{ValueKind::activation, task.block, task.micro_batch}});
  }
  if (task.block == 0 || last) shape.reads.push_back({tokens});
  if (last) {
    shape.writes.push_back({{ValueKind::loss, -1, task.micro_batch}});
  } else {
    shape.writes.push_back({{ValueKind::activation, task.block + 1, task.micro_batch}});
  }
  if (may_save(task.block)) {
    shape.writes.push_back({{ValueKind::saved, task.block, task.micro_batch}, false});
  }
}

void Shapes::fill_backward(const Task& task, TaskShape& shape) const {
  const bool fused = is_fused(task.block);
  const bool first_block = task.block == 0;
  add_weights(task.block, !first_block, shape);
  if (!first_block) {
    shape.reads.push_back({{ValueKind::activation, task.block, task.micro_batch}});
    shape.writes.push_back({{ValueKind::activation_gradient, task.block, task.micro_batch}});
  }
  if (first_block || fused) {
    shape.reads.push_back({{ValueKind::tokens, -1, task.micro_batch}});
  }
  if (fused) {
    shape.writes.push_back({{ValueKind::loss, -1, task.micro_batch}});
  } else {
    shape.reads.push_back({{ValueKind::activation_gradient, task.block + 1, task.micro_batch}});
  }
  if (may_save(task.block)) {
    shape.reads.push_back({{ValueKind::saved, task.block, task.micro_batch}, false});
  }
  if (!sums_gradient(task.block)) return;
  // Whether the sum is complete, and whose task may start it, is for the replay to say.
  shape.reads.push_back({{ValueKind::gradient, task.block, -1}, false});
  shape.writes.push_back({{ValueKind::gradient, task.block, -1}});
  shape.writes.push_back({{ValueKind::norm, task.block, -1}, false});
  for (const BlockId head : tied_) {
    if (plan_.blocks[head].reads_weight == task.block) {
      shape.reads.push_back({{ValueKind::gradient, head, -1}, false});
    }
  }
}

void Shapes::fill_clip(TaskShape& shape) const {
  const bool trains = plan_.mode == PlanMode::train;
  for (std::size_t b = 0; b < plan_.blocks.size() && trains; ++b) {
    if (!plan_.blocks[b].trainable) continue;
    shape.reads.push_back({{ValueKind::norm, static_cast<BlockId>(b), -1}});
  }
  for (int m = 0; m < plan_.micro_batches; ++m) {
    shape.reads.push_back({{ValueKind::loss, -1, m}});
  }
  if (trains && plan_.clips) shape.writes.push_back({{ValueKind::clip, -1, -1}});
}

}  // namespace ferry
